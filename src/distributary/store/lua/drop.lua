-- Removes a build and all its keys, unless it is (again) one of its view's.
-- KEYS: 1 view hash, 2 meta, 3… its other keys   ARGV: 1 build id, 2 prefix of the build's expiry keys,
--       3 whether to remove it unconditionally (1 or 0)
-- Returns 1, or 0 if it stays.
#include displaced.lua
local builds = redis.call('HMGET', KEYS[1], 'live', 'next')
if ARGV[3] == '0' and (builds[1] == ARGV[1] or builds[2] == ARGV[1]) then return 0 end
local partitions = tonumber(redis.call('HGET', KEYS[2], 'partitions') or '0')
for p = 0, partitions - 1 do redis.call('UNLINK', ARGV[2] .. p) end
redis.call('UNLINK', unpack(KEYS, 2))
if redis.call('EXISTS', KEYS[1]) == 1 then
  if builds[2] == ARGV[1] then redis.call('HSET', KEYS[1], 'next', '') end
  remove_displaced(KEYS[1], ARGV[1])
end
return 1
