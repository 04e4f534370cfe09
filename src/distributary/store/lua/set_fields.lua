-- Sets fields of a hash that exists: one that was dropped is not created again.
-- KEYS: 1 the hash   ARGV: field, value …
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1
