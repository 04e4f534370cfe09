-- Gives up half of a build's log, when the server has no memory left (R6). Resumes from before get a snapshot.
-- KEYS: 1 log
local length = redis.call('XLEN', KEYS[1])
return redis.call('XTRIM', KEYS[1], 'MAXLEN', math.max(1, math.floor(length / 2)))
