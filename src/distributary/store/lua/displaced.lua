-- Included: the builds that another one took the place of and that nobody has dropped yet (a list in the view's hash).
local function displace(view, build)
  if not build or build == '' then return end
  local list = redis.call('HGET', view, 'displaced') or ''
  redis.call('HSET', view, 'displaced', list .. build .. ' ')
end

local function replace(view, build)
  local kept = {}
  for one in string.gmatch(redis.call('HGET', view, 'displaced') or '', '%S+') do
    if one ~= build then kept[#kept + 1] = one .. ' ' end
  end
  redis.call('HSET', view, 'displaced', table.concat(kept))
end
