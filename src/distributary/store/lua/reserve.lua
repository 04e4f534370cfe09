-- Sets how much of something a process uses, unless all processes together would exceed the limit.
-- A reservation that was not renewed in time is released. A release, or a renewal, is never refused.
-- KEYS: 1 the holders   ARGV: 1 holder, 2 change, 3 amount instead of a change (-1: none), 4 limit (-1: none), 5 ttl ms
-- Returns 1, or 0 if it is refused.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local own, others = 0, 0
local found = redis.call('HGETALL', KEYS[1])
for i = 1, #found, 2 do
  local amount, expires = string.match(found[i + 1], '^(%d+) (%d+)$')
  if found[i] == ARGV[1] then
    own = tonumber(amount)
  elseif tonumber(expires) > now then
    others = others + tonumber(amount)
  else
    redis.call('HDEL', KEYS[1], found[i])
  end
end
local amount = tonumber(ARGV[3])
if amount < 0 then
  amount = math.max(0, own + tonumber(ARGV[2]))
  local limit = tonumber(ARGV[4])
  if amount > own and limit >= 0 and others + amount > limit then return 0 end
end
if amount == 0 then
  redis.call('HDEL', KEYS[1], ARGV[1])
  return 1
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f', amount, now + ARGV[5]))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[5]) then redis.call('PEXPIRE', KEYS[1], ARGV[5]) end
return 1
