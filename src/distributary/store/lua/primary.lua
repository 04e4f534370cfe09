-- Included: what a replica answers in place of "there is none". It may have nothing yet, or be of another history.
-- Returns an error reply, or nil on a primary.
local function replica()
  if string.find(redis.call('INFO', 'replication'), 'role:slave', 1, true) then
    return redis.error_reply('READONLY this server is a replica, and its primary is elsewhere')
  end
end
