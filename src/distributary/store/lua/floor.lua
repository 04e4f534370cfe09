-- Included: the number after which a log is complete, from its oldest group; nil if the log is empty.
-- The group itself, which may be megabytes, is not returned.
local function floor(log)
  local oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
  if not oldest then return false end
  return string.format('%.0f', string.match(oldest[1], '^%d+') - oldest[2][2])
end
