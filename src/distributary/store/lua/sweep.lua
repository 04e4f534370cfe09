-- Ends lapsed subscriptions, by the store's clock (R19), and notifies publishers: after a clock jump, or for a
-- process that was suspended, one may still be served.
-- KEYS: as forget.lua, then 9 the view's ctl stream   ARGV: 1 prefix of the view's keys, 2 maximum number. Returns the ids.
#include forget.lua
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local due = redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', now, 'LIMIT', 0, ARGV[2])
for _, subscription in ipairs(due) do forget(subscription, ARGV[1]) end
if #due > 0 then
  redis.call('XADD', KEYS[9], 'MAXLEN', '~', 1000, '*', 'lapsed', table.concat(due, '\n'))
end
return due
