-- Spends from a budget that refills at a rate (generic cell rate algorithm: the key stores when it is full again).
-- KEYS: 1 the budget   ARGV: 1 cost, 2 rate per second, 3 burst: the size of a full budget
-- Returns 0, or the ms after which the cost can be spent; then nothing was.
local t = redis.call('TIME')
local now = t[1] * 1000 + t[2] / 1000
local each = 1000 / tonumber(ARGV[2])
local full = math.max(now, tonumber(redis.call('GET', KEYS[1]) or '0')) + tonumber(ARGV[1]) * each
local wait = full - tonumber(ARGV[3]) * each - now
if wait > 0.001 then return math.ceil(wait) end -- sums of fractions are not exact
redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(full - now) + 1000)
return 0
