-- Deletes rows, log and marks of a build; the count continues, under a new epoch and a new generation, so that
-- an earlier task that opens only now cannot bring its old offsets back.
-- KEYS: 1 meta, 2 rows, 3 log, 4 last, 5 since, 6 the view's ctl stream, 7 index, 8 checkpoints
-- ARGV: 1 a fresh epoch, 2 reason, 3 the generation that is to end
-- Returns 1, or an error reply.
#include fence.lua
local stored = redis.call('HGET', KEYS[1], 'gen')
if stored ~= ARGV[3] then return redis.error_reply('FENCED generation ' .. tostring(stored)) end
local seq = redis.call('HGET', KEYS[1], 'seq') or '0'
local gen = redis.call('HINCRBY', KEYS[1], 'gen', 1)
local rekey = redis.call('HGET', KEYS[1], 'rekey') or ''
local definition = redis.call('HGET', KEYS[1], 'definition') or ''
local partitions = tonumber(redis.call('HGET', KEYS[1], 'partitions') or '0')
local base = string.sub(KEYS[1], 1, -5)
for p = 0, partitions - 1 do redis.call('UNLINK', base .. 'exp:' .. p) end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[7], KEYS[8])
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'gen', gen, 'seq', seq, 'definition', definition,
           'status', 'building', 'reason', ARGV[2], 'run', history_id(), 'rekey', rekey)
attach(KEYS[6])
return 1
