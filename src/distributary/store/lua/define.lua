-- Adds a build to a view.
-- KEYS: 1 view hash, 2 the set of views, 3 the build's meta
-- ARGV: 1 view name, 2 build id, 3 definition, 4 a fresh epoch
-- Returns 1 if this build is new.
#include displaced.lua
redis.call('SADD', KEYS[2], ARGV[1])
local live, next_ = unpack(redis.call('HMGET', KEYS[1], 'live', 'next'))
local created = 0
if redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('HSET', KEYS[3], 'epoch', ARGV[4], 'gen', 0, 'seq', 0, 'status', 'building', 'reason', '')
  created = 1
end
redis.call('HSET', KEYS[3], 'definition', ARGV[3])
remove_displaced(KEYS[1], ARGV[2])
-- The driver drops a previous next build, which will not be finished.
if next_ ~= ARGV[2] then displace(KEYS[1], next_) end
if not live or live == '' or live == ARGV[2] then
  redis.call('HSET', KEYS[1], 'live', ARGV[2], 'definition', ARGV[3])
  if live == ARGV[2] then
    redis.call('HSET', KEYS[1], 'next', '')
  end
else
  redis.call('HSET', KEYS[1], 'next', ARGV[2])
end
return created
