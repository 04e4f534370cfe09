-- Included: which history of writes this server is on. Every promotion of a replica begins another one, also that
-- of a server which was primary before and has kept its run id.
local function history_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') .. ':'
    .. (string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or '')
end
