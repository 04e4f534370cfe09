-- Writes plain facts into a hash that is there: one that was dropped meanwhile is not made again.
-- KEYS: 1 the hash   ARGV: field, value …
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
