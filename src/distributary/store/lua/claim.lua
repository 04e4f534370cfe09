-- Start of a driver: raises the generation.
-- KEYS: 1 the build's meta, 2 the view's ctl stream, 3 the log
-- ARGV: 1 topic id, 2 partitions, 3 a fresh epoch, 4 the name of the driver
-- Returns {epoch, generation, renewed, all of meta…} or an error reply.
#include fence.lua
if redis.call('EXISTS', KEYS[1]) == 0 then
  return redis.error_reply('GONE no such build')
end
local topic, partitions = unpack(redis.call('HMGET', KEYS[1], 'topic', 'partitions'))
if topic and (topic ~= ARGV[1] or tonumber(partitions) > tonumber(ARGV[2])) then
  return redis.error_reply('TOPIC ' .. topic .. ' ' .. partitions)
end
local renewed = renew(KEYS[1], KEYS[2], ARGV[3])
redis.call('HSET', KEYS[1], 'topic', ARGV[1], 'partitions', ARGV[2], 'driver', ARGV[4])
redis.call('HSETNX', KEYS[1], 'first', ARGV[2])
local gen = redis.call('HINCRBY', KEYS[1], 'gen', 1)
return {redis.call('HGET', KEYS[1], 'epoch'), gen, renewed and 1 or 0, redis.call('HGETALL', KEYS[1])}
