-- Makes a build the live one of its view.
-- KEYS: 1 view hash, 2 the build's meta, 3 the view's ctl stream
-- ARGV: 1 build id, 2 increment of the generation (0 or 1), 3 the generation that it was built under ('' for any)
-- Returns the build it replaced ('' for none), or an error reply.
#include fence.lua
#include displaced.lua
if ARGV[3] ~= '' then
  local gen = redis.call('HGET', KEYS[2], 'gen')
  if gen ~= ARGV[3] then return redis.error_reply('FENCED generation ' .. tostring(gen)) end
end
local live = redis.call('HGET', KEYS[1], 'live') or ''
redis.call('HINCRBY', KEYS[2], 'gen', ARGV[2])
redis.call('HSET', KEYS[2], 'status', 'live', 'reason', '')
redis.call('HSET', KEYS[1], 'live', ARGV[1], 'definition', redis.call('HGET', KEYS[2], 'definition'))
if redis.call('HGET', KEYS[1], 'next') == ARGV[1] then redis.call('HSET', KEYS[1], 'next', '') end
attach(KEYS[3])
if live == ARGV[1] then return '' end
displace(KEYS[1], live)
return live
