-- Applies one group: checks everything, then writes; nothing is rolled back (R6).
-- KEYS: 1 meta, 2 rows, 3 log, 4 last change of each query, 5 expiry of this partition's rows,
--       6 view hash, 7 registry log, 8 query texts, 9 row index
-- ARGV: 1 partition, 2 epoch, 3 generation, 4 token, 5 group number, 6 registry version,
--       7 mark it follows ('' for none), 8 new mark, 9 state of the partition, 10 number of changes, 11 blob,
--       12 records, 13 dead letters, 14 length of the log in changes, 15 rows written n, 16 rows removed r,
--       17 expiries e, 18 queries q, 19 index entries to add, 20 and to remove, 21 clock (0: unchanged),
--       22 fingerprint of the record at the mark ('': unchanged); then n × (key, index, new?, tail of the value),
--       r × key, e × (expiry, key), q × (number, index), entries to add, entries to remove.
-- Returns the seq of the last change, or {'behind', version, steps…}, or {'whole', version}, or an error reply.
#include registry_changes.lua
-- 1. Fence: epoch, generation, token, group number and mark must be the stored ones; a repetition succeeds (R1).
local p = ARGV[1]
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'gen', 't:' .. p, 'g:' .. p, 'm:' .. p, 's:' .. p, 'seq')
if meta[1] ~= ARGV[2] then return redis.error_reply('FENCED epoch ' .. tostring(meta[1])) end
if meta[2] ~= ARGV[3] then return redis.error_reply('FENCED generation ' .. tostring(meta[2])) end
if meta[3] ~= ARGV[4] then return redis.error_reply('FENCED token ' .. tostring(meta[3])) end
if meta[4] == ARGV[5] and (meta[5] or '') == ARGV[8] then return meta[6] end
if tonumber(meta[4]) ~= tonumber(ARGV[5]) - 1 then return redis.error_reply('FENCED group ' .. tostring(meta[4])) end
if (meta[5] or '') ~= ARGV[7] then return redis.error_reply('FENCED mark ' .. tostring(meta[5])) end

-- 2. Registry: changes must have been matched against its present version (R15).
local count = tonumber(ARGV[10])
if count > 0 or ARGV[21] ~= '0' then
  local behind = registry_changes(KEYS[6], KEYS[7], KEYS[8], ARGV[6])
  if behind then return behind end
end

local n, r, e, q = tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17]), tonumber(ARGV[18])
local at = 23
-- 3. Owner: a row that the reducer believes is new must not belong to another partition (R7).
for i = 0, n - 1 do
  local base = at + i * 4
  if ARGV[base + 2] == '1' then
    local found = redis.call('HGET', KEYS[2], ARGV[base])
    if found then
      local owner = string.match(found, '^%d+ (%d+) ')
      if owner ~= p then return redis.error_reply('OWNER ' .. owner .. ' ' .. ARGV[base]) end
    end
  end
end

local first = tonumber(meta[7]) + 1
local last = first + count - 1
local seq = meta[7]
-- 4. The log first: a server without memory refuses this command before anything is written (R6).
if count > 0 then
  seq = string.format('%.0f', last)
  redis.call('XADD', KEYS[3], seq .. '-0', 'n', ARGV[10], 'b', ARGV[11])
  local oldest = last - tonumber(ARGV[14])
  if oldest > 0 then redis.call('XTRIM', KEYS[3], 'MINID', '~', string.format('%.0f-0', oldest)) end
end
-- 5. Rows, their expiries, the last change of each query, and the row index, in chunks.
local pairs_ = {}
local size = 0
for i = 0, n - 1 do
  local base = at + i * 4
  pairs_[size + 1] = ARGV[base]
  pairs_[size + 2] = string.format('%.0f ', first + ARGV[base + 1]) .. ARGV[base + 3]
  size = size + 2
  if size >= 1000 then
    redis.call('HSET', KEYS[2], unpack(pairs_, 1, size))
    size = 0
  end
end
if size > 0 then redis.call('HSET', KEYS[2], unpack(pairs_, 1, size)) end
at = at + n * 4
for i = 0, r - 1 do
  redis.call('HDEL', KEYS[2], ARGV[at + i])
  redis.call('ZREM', KEYS[5], ARGV[at + i])
end
at = at + r
for i = 0, e - 1 do redis.call('ZADD', KEYS[5], ARGV[at + i * 2], ARGV[at + i * 2 + 1]) end
at = at + e * 2
size = 0
for i = 0, q - 1 do
  pairs_[size + 1] = ARGV[at + i * 2]
  pairs_[size + 2] = string.format('%.0f', first + ARGV[at + i * 2 + 1])
  size = size + 2
  if size >= 1000 then
    redis.call('HSET', KEYS[4], unpack(pairs_, 1, size))
    size = 0
  end
end
if size > 0 then redis.call('HSET', KEYS[4], unpack(pairs_, 1, size)) end
at = at + q * 2
local added, removed = tonumber(ARGV[19]), tonumber(ARGV[20])
for i = 0, removed - 1 do redis.call('ZREM', KEYS[9], ARGV[at + added + i]) end
for i = 0, added - 1 do redis.call('ZADD', KEYS[9], 0, ARGV[at + i]) end
-- 6. The mark and what goes with it.
redis.call('HSET', KEYS[1], 'seq', seq, 's:' .. p, seq, 'm:' .. p, ARGV[8], 'g:' .. p, ARGV[5], 'w:' .. p, ARGV[9])
if ARGV[21] ~= '0' then redis.call('HSET', KEYS[1], 'c:' .. p, ARGV[21]) end
if ARGV[22] ~= '' then redis.call('HSET', KEYS[1], 'f:' .. p, ARGV[22]) end
if ARGV[12] ~= '0' then redis.call('HINCRBY', KEYS[1], 'records', ARGV[12]) end
if ARGV[13] ~= '0' then redis.call('HINCRBY', KEYS[1], 'dead', ARGV[13]) end
return seq
