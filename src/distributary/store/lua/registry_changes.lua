-- Included: what changed in the registry since a known version (R15).
-- Takes the keys of the view's hash, of the registry log and of the query texts.
-- Returns nil for no change, {'behind', version, steps…}, or {'whole', version} if the log is too short.
local function registry_changes(view, log, texts, known)
  local version = redis.call('HGET', view, 'version') or '0'
  if version == known then return nil end
  local oldest = redis.call('ZRANGE', log, 0, 0, 'WITHSCORES')
  if redis.call('ZCARD', log) >= 10000 and tonumber(oldest[2]) > known + 1 then
    return {'whole', version}
  end
  local steps = redis.call('ZRANGEBYSCORE', log, '(' .. known, '+inf', 'WITHSCORES')
  local reply = {'behind', version}
  for i = 1, #steps, 2 do
    local id = string.match(steps[i], '^%S+ (%S+)')
    reply[#reply + 1] = steps[i + 1]
    reply[#reply + 1] = steps[i]
    reply[#reply + 1] = redis.call('HGET', texts, id) or ''
  end
  return reply
end
