-- Reads rows by key, with the position they are true at.
-- KEYS: 1 meta, 2 rows   ARGV: keys. Returns {epoch, seq, values…, clocks}.
#include clocks.lua
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'seq')
local out = {}
for i = 1, #ARGV, 1000 do
  local found = redis.call('HMGET', KEYS[2], unpack(ARGV, i, math.min(i + 999, #ARGV)))
  for j = 1, #found do out[i + j - 1] = found[j] end
end
return {meta[1] or '', meta[2] or '0', out, clocks(KEYS[1])}
