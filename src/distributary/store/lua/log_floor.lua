-- Returns the number after which a log is complete, or nil if it is empty. KEYS: 1 log
#include floor.lua
return floor(KEYS[1])
