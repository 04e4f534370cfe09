-- Saves a checkpoint of a build: its count and the marks of its partitions, by the server's clock.
-- KEYS: 1 the build's meta, 2 its checkpoints   ARGV: 1 minimum ms between two, 2 number to keep
-- A checkpoint is 'time epoch seq partition=mark,…'; all are of one epoch, and each differs from the previous one.
local count = tonumber(redis.call('HGET', KEYS[1], 'partitions') or '0')
local epoch, seq = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'seq'))
if count == 0 or not epoch then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0)[1]
local before, of, rest = string.match(last or '', '^(%S+) (%S+) (.*)$')
if of and of ~= epoch then
  redis.call('UNLINK', KEYS[2])
elseif before and now - before < math.max(1, tonumber(ARGV[1])) then
  return 0
end
local marks = {}
for p = 0, count - 1 do
  local mark, ending = unpack(redis.call('HMGET', KEYS[1], 'm:' .. p, 'e:' .. p))
  if ending and (not mark or tonumber(string.match(mark, '^%d+')) < tonumber(ending)) then mark = ending end
  if mark then marks[#marks + 1] = p .. '=' .. mark end
end
local state = (seq or '0') .. ' ' .. table.concat(marks, ',')
if of == epoch and rest == state then return 0 end
local stamp = string.format('%.0f', now)
redis.call('ZADD', KEYS[2], stamp, stamp .. ' ' .. epoch .. ' ' .. state)
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - ARGV[2])
return 1
