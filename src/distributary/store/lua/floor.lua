-- Included: after which number a log is complete, from its oldest group; nil when it has none.
-- The group itself, which may be of megabytes, stays here.
local function floor(log)
  local oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
  if not oldest then return false end
  return string.format('%.0f', string.match(oldest[1], '^%d+') - oldest[2][2])
end
