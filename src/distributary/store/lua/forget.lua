-- Included: removes one subscription and, with the last one, its query.
-- Expects KEYS: 1 view hash, 2 query texts, 3 query numbers, 4 references, 5 registry log, 6 expiries, 7 subscriptions,
--       8 expensive queries
local function forget(subscription, prefix)
  redis.call('ZREM', KEYS[6], subscription)
  local stored = redis.call('HGET', KEYS[7], subscription)
  if not stored then return false end
  redis.call('HDEL', KEYS[7], subscription)
  local id = string.sub(stored, 2)
  if redis.call('HINCRBY', KEYS[4], id, -1) <= 0 then
    local number = redis.call('HGET', KEYS[3], id)
    redis.call('HDEL', KEYS[4], id)
    redis.call('HDEL', KEYS[2], id)
    redis.call('HDEL', KEYS[3], id)
    redis.call('HDEL', KEYS[8], id)
    local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
    redis.call('ZREM', KEYS[5], '+' .. number .. ' ' .. id)
    redis.call('ZADD', KEYS[5], version, '-' .. number .. ' ' .. id)
    redis.call('ZREMRANGEBYRANK', KEYS[5], 0, -10001)
    local builds = redis.call('HMGET', KEYS[1], 'live', 'next')
    for i = 1, 2 do
      if builds[i] and builds[i] ~= '' then
        redis.call('HDEL', prefix .. builds[i] .. ':since', number)
        redis.call('HDEL', prefix .. builds[i] .. ':last', number)
      end
    end
  end
  return true
end
