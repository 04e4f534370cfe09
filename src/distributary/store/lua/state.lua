-- Reads what decides whether a resume is exact (R17), of the live build.
-- KEYS: 1 view hash, 2 query numbers   ARGV: 1 query id, 2 prefix of the view's keys
-- Returns {number, since, last, epoch, seq, floor of the log, history id} or nil.
#include history.lua
#include floor.lua
local live = redis.call('HGET', KEYS[1], 'live')
local number = redis.call('HGET', KEYS[2], ARGV[1])
if not live or live == '' or not number then return false end
local base = ARGV[2] .. live .. ':'
local meta = redis.call('HMGET', base .. 'meta', 'epoch', 'seq')
return {number, redis.call('HGET', base .. 'since', number) or '0', redis.call('HGET', base .. 'last', number) or '0',
        meta[1] or '', meta[2] or '0', floor(base .. 'log'), history_id()}
