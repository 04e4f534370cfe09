-- Notes that what a user was given before now no longer counts; a clock set back does not undo it.
-- KEYS: 1 the revocations   ARGV: 1 user, 2 the moment (ms) if another server gave it, else 0
-- Returns the moment in ms.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if ARGV[2] ~= '0' then now = tonumber(ARGV[2]) end
local before = redis.call('HGET', KEYS[1], ARGV[1])
if before and tonumber(before) >= now then return tonumber(before) end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now))
return now
