-- Ends one subscription. KEYS: as forget.lua, then 9 the view's ctl stream
-- ARGV: 1 subscription, 2 prefix of the view's keys, 3 whether to notify the publishers (1 or 0)
#include forget.lua
if not forget(ARGV[1], ARGV[2]) then return 0 end
if ARGV[3] == '1' then redis.call('XADD', KEYS[9], 'MAXLEN', '~', 1000, '*', 'ended', ARGV[1]) end
return 1
