-- Included by scripts that need the server's identity.
-- A run id that differs from the stored one means a restart or a failover (R2).
local function run_id()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
end

local function attach(ctl)
  redis.call('XADD', ctl, 'MAXLEN', '~', 1000, '*', 'attach', '1')
end

-- Renews the epoch where the server is not the one the build knew.
local function renew(meta, ctl, epoch)
  local run = run_id()
  if redis.call('HGET', meta, 'run') ~= run then
    redis.call('HSET', meta, 'run', run, 'epoch', epoch)
    attach(ctl)
    return true
  end
  return false
end
