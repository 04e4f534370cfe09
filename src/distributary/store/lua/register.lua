-- Adds a subscription and, if new, its query (R15). A repetition with the same id changes only the expiry.
-- KEYS: 1 view hash, 2 query texts, 3 query numbers, 4 references, 5 registry log, 6 expiries, 7 subscriptions,
--       8 expensive queries
-- ARGV: 1 query id, 2 text, 3 subscription, 4 ttl ms, 5 begun (1 or 0), 6 prefix of the view's keys,
--       7 maximum number of queries (0: any), 8 whether this one is expensive (1 or 0),
--       9 maximum number of expensive ones (0: any)
-- Returns {number, version, created, since, last, epoch, seq, history id} or an error reply.
#include primary.lua
#include history.lua
local live, nxt = unpack(redis.call('HMGET', KEYS[1], 'live', 'next'))
if not live or live == '' then return replica() or redis.error_reply('GONE no such view') end
local t = redis.call('TIME')
local expires = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[4]
local created = 0
local number = redis.call('HGET', KEYS[3], ARGV[1])
if number and redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then
  return redis.error_reply('TAKEN another query has this id')
end
if not number then
  local most, expensive = tonumber(ARGV[7]), tonumber(ARGV[9])
  if most > 0 and redis.call('HLEN', KEYS[2]) >= most then return redis.error_reply('FULL queries') end
  if ARGV[8] == '1' then
    if expensive > 0 and redis.call('HLEN', KEYS[8]) >= expensive then return redis.error_reply('FULL expensive') end
    redis.call('HSET', KEYS[8], ARGV[1], 1)
  end
  number = tostring(redis.call('HINCRBY', KEYS[1], 'numbers', 1))
  created = 1
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
  redis.call('HSET', KEYS[3], ARGV[1], number)
  local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
  redis.call('ZADD', KEYS[5], version, '+' .. number .. ' ' .. ARGV[1])
  redis.call('ZREMRANGEBYRANK', KEYS[5], 0, -10001)
  for _, build in ipairs({live, nxt or ''}) do
    if build ~= '' then
      local base = ARGV[6] .. build .. ':'
      redis.call('HSET', base .. 'since', number, redis.call('HGET', base .. 'meta', 'seq') or '0')
    end
  end
end
if redis.call('HEXISTS', KEYS[7], ARGV[3]) == 0 then
  redis.call('HINCRBY', KEYS[4], ARGV[1], 1)
  redis.call('HSET', KEYS[7], ARGV[3], ARGV[5] .. ARGV[1])
end
redis.call('ZADD', KEYS[6], expires, ARGV[3])
local base = ARGV[6] .. live .. ':'
local meta = redis.call('HMGET', base .. 'meta', 'epoch', 'seq')
return {number, redis.call('HGET', KEYS[1], 'version'), created, redis.call('HGET', base .. 'since', number) or '0',
        redis.call('HGET', base .. 'last', number) or '0', meta[1] or '', meta[2] or '0', history_id()}
