-- Included by scripts that check the history of the server: another one than the stored means a restart or a
-- failover (R2).
#include history.lua

local function attach(ctl)
  redis.call('XADD', ctl, 'MAXLEN', '~', 1000, '*', 'attach', '1')
end

-- Renews the epoch if the server's history is not the one that the build knew.
local function renew(meta, ctl, epoch)
  local history = history_id()
  if redis.call('HGET', meta, 'run') ~= history then
    redis.call('HSET', meta, 'run', history, 'epoch', epoch)
    attach(ctl)
    return true
  end
  return false
end

-- Returns why a claim no longer holds; nil if it does.
local function refused(meta, epoch, generation)
  local stored = redis.call('HMGET', meta, 'epoch', 'gen', 'run')
  if stored[2] ~= generation then return 'generation ' .. tostring(stored[2]) end
  if stored[1] ~= epoch then return 'epoch ' .. tostring(stored[1]) end
  if stored[3] ~= history_id() then return 'the server restarted or failed over' end
  return nil
end
