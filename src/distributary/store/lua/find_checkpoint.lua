-- Finds the latest checkpoint at or before a time or a count (both only grow).
-- KEYS: 1 checkpoints   ARGV: 1 'time' or 'seq', 2 value. Returns the checkpoint, or nil.
if ARGV[1] == 'time' then return redis.call('ZREVRANGEBYSCORE', KEYS[1], ARGV[2], '-inf', 'LIMIT', 0, 1)[1] end
local low, high = 0, redis.call('ZCARD', KEYS[1])
local found = false
while low < high do
  local middle = math.floor((low + high) / 2)
  local checkpoint = redis.call('ZRANGE', KEYS[1], middle, middle)[1]
  if tonumber(string.match(checkpoint, '^%S+ %S+ (%d+) ')) <= tonumber(ARGV[2]) then
    found, low = checkpoint, middle + 1
  else
    high = middle
  end
end
return found
