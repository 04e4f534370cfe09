-- Ends subscriptions whose time is over, by the store's clock (R19).
-- KEYS: as forget.lua   ARGV: 1 prefix of the view's keys, 2 at most. Returns the ids.
#include forget.lua
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local due = redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', now, 'LIMIT', 0, ARGV[2])
for _, subscription in ipairs(due) do forget(subscription, ARGV[1]) end
return due
