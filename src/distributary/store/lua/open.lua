-- Start of a reducer on one partition: raises its token.
-- KEYS: 1 the build's meta, 2 the log, 3 view hash, 4 query numbers, 5 query texts
-- ARGV: 1 partition, 2 epoch and 3 generation of the claim
-- Returns {epoch, token, mark, state, version, numbers…, texts…, clock} or an error reply.
#include fence.lua
local p = ARGV[1]
local why = refused(KEYS[1], ARGV[2], ARGV[3])
if why then return redis.error_reply('FENCED ' .. why) end
-- The count must be the log's top: anything else is a torn write (R13).
local seq = redis.call('HGET', KEYS[1], 'seq')
local top = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)
if top[1] and top[1][1] ~= seq .. '-0' then
  return redis.error_reply('SUSPECT the log ends at ' .. top[1][1] .. ', the count at ' .. seq)
end
local token = redis.call('HINCRBY', KEYS[1], 't:' .. p, 1)
redis.call('HSET', KEYS[1], 'g:' .. p, 0)
local mark, state, clock = unpack(redis.call('HMGET', KEYS[1], 'm:' .. p, 'w:' .. p, 'c:' .. p))
return {ARGV[2], token, mark or '', state or '', redis.call('HGET', KEYS[3], 'version') or '0',
        redis.call('HGETALL', KEYS[4]), redis.call('HGETALL', KEYS[5]), clock or '0'}
