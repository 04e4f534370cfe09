-- Notes that what a user was given before now no longer counts; a clock set back does not undo it.
-- Notes of others that are too old to matter go; not those of API keys (key:NAME), which have no end.
-- KEYS: 1 the revocations
-- ARGV: 1 user, 2 the moment (ms) if another server gave it, else 0, 3 how old (ms) others may get, 0: any age
-- Returns the moment in ms.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if ARGV[2] ~= '0' then now = tonumber(ARGV[2]) end
local before = redis.call('HGET', KEYS[1], ARGV[1])
if before and tonumber(before) >= now then return tonumber(before) end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now))
local keep = tonumber(ARGV[3] or '0')
local notes = keep > 0 and redis.call('HGETALL', KEYS[1]) or {}
for at = 1, #notes, 2 do
  if tonumber(notes[at + 1]) < now - keep and string.sub(notes[at], 1, 4) ~= 'key:' then
    redis.call('HDEL', KEYS[1], notes[at])
  end
end
return now
