-- Moves partitions past records that the JVM filtered out, at a batch's end (R12).
-- KEYS: 1 the build's meta
-- ARGV: 1 epoch, 2 generation, 3 e: (batch ends) or h: (re-keyed), 4 number of ends, then for each: partition, next offset,
--       fingerprint of the record before it ('' none); then partition, fingerprint of the internal topic's last record …
-- Returns 1, or 0 if the claim that the batch ran under no longer holds.
#include fence.lua
if refused(KEYS[1], ARGV[1], ARGV[2]) then return 0 end
local at = 5 + 3 * ARGV[4]
for i = 5, at - 1, 3 do
  local name = ARGV[3] .. ARGV[i]
  local stored = redis.call('HGET', KEYS[1], name)
  if not stored or tonumber(stored) < tonumber(ARGV[i + 1]) then
    redis.call('HSET', KEYS[1], name, ARGV[i + 1])
    if ARGV[i + 2] ~= '' then redis.call('HSET', KEYS[1], 'f' .. name, ARGV[i + 2]) end
  end
end
for i = at, #ARGV, 2 do redis.call('HSET', KEYS[1], 'fi:' .. ARGV[i], ARGV[i + 1]) end
return 1
