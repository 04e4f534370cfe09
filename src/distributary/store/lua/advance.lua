-- Moves partitions past records that the JVM filtered out, at a batch's end (R12).
-- KEYS: 1 the build's meta   ARGV: 1 epoch, 2 generation, 3 e: (batch ends) or h: (re-keyed), then partition, next offset …
-- Returns 1, or 0 when the epoch, the generation or the server is not the one the batch was run under.
#include fence.lua
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'gen', 'run')
if meta[1] ~= ARGV[1] or meta[2] ~= ARGV[2] or meta[3] ~= run_id() then return 0 end
for i = 4, #ARGV, 2 do
  local held = redis.call('HGET', KEYS[1], ARGV[3] .. ARGV[i])
  if not held or tonumber(held) < tonumber(ARGV[i + 1]) then
    redis.call('HSET', KEYS[1], ARGV[3] .. ARGV[i], ARGV[i + 1])
  end
end
return 1
