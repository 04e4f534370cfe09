-- Included: the reply of a replica in place of "does not exist": it may be empty still, or be on another history.
-- Returns an error reply, or nil on a primary.
local function replica()
  if string.find(redis.call('INFO', 'replication'), 'role:slave', 1, true) then
    return redis.error_reply('READONLY this server is a replica; the primary is another one')
  end
end
