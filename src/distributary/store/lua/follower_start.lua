-- Finds where a follower of a view's log begins, and on which history.
-- KEYS: 1 view hash, 2 the view's ctl stream   ARGV: 1 prefix of the view's keys
-- Returns {history id, live build, epoch, seq, last notice}, nil if the view does not exist, or an error reply.
#include primary.lua
#include history.lua
local found = replica()
if found then return found end
local live = redis.call('HGET', KEYS[1], 'live')
if not live or live == '' then return false end
local meta = redis.call('HMGET', ARGV[1] .. live .. ':meta', 'epoch', 'seq')
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
return {history_id(), live, meta[1] or '', meta[2] or '0', last and last[1] or '0-0'}
