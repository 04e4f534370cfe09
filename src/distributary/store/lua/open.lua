-- A reducer's start on one partition: raises its token.
-- KEYS: 1 the build's meta, 2 the view's ctl stream, 3 the log, 4 view hash, 5 query numbers, 6 query texts
-- ARGV: 1 partition, 2 generation, 3 a fresh epoch
-- Returns {epoch, token, mark, memo, version, numbers…, texts…, clock} or an error reply.
#include fence.lua
local p = ARGV[1]
local gen, seq = unpack(redis.call('HMGET', KEYS[1], 'gen', 'seq'))
if not gen or gen ~= ARGV[2] then
  return redis.error_reply('FENCED generation ' .. tostring(gen))
end
-- The count must be the log's top: anything else is a torn write (R13).
local top = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)
if top[1] and top[1][1] ~= seq .. '-0' then
  return redis.error_reply('SUSPECT the log ends at ' .. top[1][1] .. ', the count at ' .. seq)
end
renew(KEYS[1], KEYS[2], ARGV[3])
local token = redis.call('HINCRBY', KEYS[1], 't:' .. p, 1)
redis.call('HSET', KEYS[1], 'g:' .. p, 0)
local epoch, mark, memo, clock = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'm:' .. p, 'w:' .. p, 'c:' .. p))
return {epoch, token, mark or '', memo or '', redis.call('HGET', KEYS[4], 'version') or '0',
        redis.call('HGETALL', KEYS[5]), redis.call('HGETALL', KEYS[6]), clock or '0'}
