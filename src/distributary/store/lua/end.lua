-- Ends one subscription. KEYS: as forget.lua   ARGV: 1 subscription, 2 prefix of the view's keys
#include forget.lua
return forget(ARGV[1], ARGV[2]) and 1 or 0
