-- Included by scripts that need to know whose history this is: what differs from the stored one means a restart
-- or a failover (R2).
#include history.lua

local function attach(ctl)
  redis.call('XADD', ctl, 'MAXLEN', '~', 1000, '*', 'attach', '1')
end

-- Renews the epoch where the server's history is not the one that the build knew.
local function renew(meta, ctl, epoch)
  local history = history_id()
  if redis.call('HGET', meta, 'run') ~= history then
    redis.call('HSET', meta, 'run', history, 'epoch', epoch)
    attach(ctl)
    return true
  end
  return false
end

-- Why a claim does not hold any more; nil while it does.
local function refused(meta, epoch, generation)
  local held = redis.call('HMGET', meta, 'epoch', 'gen', 'run')
  if held[2] ~= generation then return 'generation ' .. tostring(held[2]) end
  if held[1] ~= epoch then return 'epoch ' .. tostring(held[1]) end
  if held[3] ~= history_id() then return 'the server restarted or failed over' end
  return nil
end
