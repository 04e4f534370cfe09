-- Reads some rows with the position at that moment.
-- KEYS: 1 meta, 2 rows   ARGV: 1 cursor, 2 count. Returns {epoch, seq, cursor, {key, value…}, clocks}.
#include clocks.lua
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'seq')
local found = redis.call('HSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
return {meta[1] or '', meta[2] or '0', found[1], found[2], clocks(KEYS[1])}
