-- Reads the position of a page of rows. HSCAN reads the page itself, in the same transaction: through a script
-- each row would be copied three more times.
-- KEYS: 1 meta. Returns {epoch, seq, clocks}.
#include clocks.lua
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'seq')
return {meta[1] or '', meta[2] or '0', clocks(KEYS[1])}
