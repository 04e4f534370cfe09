-- Included by scripts that read rows.
-- Returns for each partition the time at which its timed queries were last matched ('' for never).
local function clocks(meta)
  local count = tonumber(redis.call('HGET', meta, 'partitions') or '0')
  if count == 0 then return {} end
  local names = {}
  for p = 0, count - 1 do names[p + 1] = 'c:' .. p end
  return redis.call('HMGET', meta, unpack(names))
end
