-- Revokes what a user was granted before now; a clock that goes back does not undo it. Old revocations of other
-- users are deleted, except those of API keys (key:NAME), which do not expire.
-- KEYS: 1 the revocations
-- ARGV: 1 user, 2 the time (ms) if another server set it, else 0, 3 maximum age (ms) of others (0: any)
-- Returns the time in ms.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if ARGV[2] ~= '0' then now = tonumber(ARGV[2]) end
local before = redis.call('HGET', KEYS[1], ARGV[1])
if before and tonumber(before) >= now then return tonumber(before) end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now))
local keep = tonumber(ARGV[3] or '0')
local all = keep > 0 and redis.call('HGETALL', KEYS[1]) or {}
for at = 1, #all, 2 do
  if tonumber(all[at + 1]) < now - keep and string.sub(all[at], 1, 4) ~= 'key:' then
    redis.call('HDEL', KEYS[1], all[at])
  end
end
return now
