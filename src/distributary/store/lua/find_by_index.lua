-- Reads the rows that are indexed under a value, with the position they are true at.
-- KEYS: 1 meta, 2 rows, 3 row index   ARGV: 1 first entry, 2 the entry after the last, 3 limit
-- Returns {epoch, seq, {entry…}, {value…}, clocks}, or nil if there are more than the limit.
#include clocks.lua
local entries = redis.call('ZRANGEBYLEX', KEYS[3], '[' .. ARGV[1], '(' .. ARGV[2], 'LIMIT', 0, ARGV[3] + 1)
if #entries > tonumber(ARGV[3]) then return false end
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'seq')
local rows = {}
local skip = #ARGV[1] + 1
for i = 1, #entries do rows[i] = redis.call('HGET', KEYS[2], string.sub(entries[i], skip)) end
return {meta[1] or '', meta[2] or '0', entries, rows, clocks(KEYS[1])}
