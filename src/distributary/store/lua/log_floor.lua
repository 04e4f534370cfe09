-- After which number a log is complete. KEYS: 1 log. Returns the number, or nil when the log is empty.
#include floor.lua
return floor(KEYS[1])
