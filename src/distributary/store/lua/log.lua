-- Reads whole groups that end after a number: about that many changes and bytes at most; at least one group.
-- KEYS: 1 meta, 2 log   ARGV: 1 after, 2 changes, 3 bytes
-- Returns {epoch, seq, floor, entries…}.
#include floor.lua
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'seq')
local changes, bytes = tonumber(ARGV[2]), tonumber(ARGV[3])
local entries, after, step, size = {}, ARGV[1] .. '-0', 1, 0
while changes > 0 and bytes > 0 do
  local found = redis.call('XRANGE', KEYS[2], '(' .. after, '+', 'COUNT', step)
  for _, entry in ipairs(found) do
    if changes <= 0 or bytes <= 0 then break end
    entries[#entries + 1] = entry
    after = entry[1]
    changes = changes - entry[2][2]
    bytes = bytes - #entry[2][4]
    size = size + #entry[2][4]
  end
  if #found < step then break end
  -- As many more as fit if they are like the previous ones; only a few, since they may be larger.
  step = math.max(1, math.min(16, math.floor(bytes * #entries / size)))
end
return {meta[1] or '', meta[2] or '0', floor(KEYS[2]), entries}
