-- Marks a subscription begun and notifies the publishers.
-- KEYS: 1 subscriptions, 2 expiries, 3 the view's ctl stream   ARGV: 1 subscription, 2 ttl ms
-- Returns 1 if it begins now, 0 if it had begun, -1 if it is unknown or has lapsed.
#include primary.lua
local stored = redis.call('HGET', KEYS[1], ARGV[1])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local expires = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not stored or not expires or tonumber(expires) < now then return replica() or -1 end
if string.sub(stored, 1, 1) == '1' then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], '1' .. string.sub(stored, 2))
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[2]), ARGV[1])
redis.call('XADD', KEYS[3], 'MAXLEN', '~', 1000, '*', 'begun', ARGV[1])
return 1
