-- Included: identifies the history of writes that this server is on. Every promotion of a replica begins another
-- one, even of a server that was the primary before and still has its run id.
local function history_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') .. ':'
    .. (string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or '')
end
