-- Finds expired rows of a partition.
-- KEYS: 1 expiry of the partition's rows   ARGV: 1 maximum number. Returns {now in ms, {key…}}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
return {string.format('%.0f', now), redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[1])}
