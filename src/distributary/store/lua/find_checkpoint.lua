-- Finds the newest note of where a build stood, at or before a time or a count (both only grow).
-- KEYS: 1 places   ARGV: 1 'time' or 'seq', 2 value. Returns the note, or nil.
if ARGV[1] == 'time' then return redis.call('ZREVRANGEBYSCORE', KEYS[1], ARGV[2], '-inf', 'LIMIT', 0, 1)[1] end
local low, high = 0, redis.call('ZCARD', KEYS[1])
local found = false
while low < high do
  local middle = math.floor((low + high) / 2)
  local note = redis.call('ZRANGE', KEYS[1], middle, middle)[1]
  if tonumber(string.match(note, '^%S+ %S+ (%d+) ')) <= tonumber(ARGV[2]) then
    found, low = note, middle + 1
  else
    high = middle
  end
end
return found
