-- Extends the expiry of subscriptions. KEYS: 1 subscriptions, 2 expiries   ARGV: 1 ttl ms, 2… ids
-- Returns those that do not exist.
local t = redis.call('TIME')
local expires = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[1])
local gone = {}
for i = 2, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then
    redis.call('ZADD', KEYS[2], expires, ARGV[i])
  else
    gone[#gone + 1] = ARGV[i]
  end
end
return gone
