-- The position that goes with a page of rows, which is read in the same transaction by HSCAN itself: through a
-- script each row would be copied three times more.
-- KEYS: 1 meta. Returns {epoch, seq, clocks}.
#include clocks.lua
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'seq')
return {meta[1] or '', meta[2] or '0', clocks(KEYS[1])}
