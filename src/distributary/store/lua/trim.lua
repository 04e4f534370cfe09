-- Drops half of a build's log, when the server is out of memory (R6). Earlier positions get a snapshot.
-- KEYS: 1 log
local length = redis.call('XLEN', KEYS[1])
return redis.call('XTRIM', KEYS[1], 'MAXLEN', math.max(1, math.floor(length / 2)))
