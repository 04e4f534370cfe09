-- Included: the builds that were replaced and not dropped yet (a list in the view's hash).
local function displace(view, build)
  if not build or build == '' then return end
  local list = redis.call('HGET', view, 'displaced') or ''
  redis.call('HSET', view, 'displaced', list .. build .. ' ')
end

local function remove_displaced(view, build)
  local rest = {}
  for one in string.gmatch(redis.call('HGET', view, 'displaced') or '', '%S+') do
    if one ~= build then rest[#rest + 1] = one .. ' ' end
  end
  redis.call('HSET', view, 'displaced', table.concat(rest))
end
