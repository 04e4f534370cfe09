-- Reads whole groups that end after a number.
-- KEYS: 1 meta, 2 log   ARGV: 1 after, 2 most entries
-- Returns {epoch, seq, oldest entry…, entries…}.
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'seq')
return {meta[1] or '', meta[2] or '0', redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1),
        redis.call('XRANGE', KEYS[2], '(' .. ARGV[1] .. '-0', '+', 'COUNT', ARGV[2])}
