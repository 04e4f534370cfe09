#!lua flags=no-writes
-- Lists the commands that the calling user may not use on keys d:*; empty if the server cannot tell. A command
-- that is used anywhere must be listed here, and in the rule in docs/how-to/use-your-kafka-and-redis.md.
if not redis.acl_check_cmd then return {} end
local key = 'd:{rights}:x'
local needed = {
  {'PING'}, {'INFO'}, {'TIME'}, {'MULTI'}, {'EXEC'}, {'EVAL', 'return 1', '0'}, {'EVALSHA', 'x', '0'},
  {'BGREWRITEAOF'}, {'GET', key}, {'SET', key, 'x'}, {'EXISTS', key}, {'EXPIRE', key, '1'},
  {'PEXPIRE', key, '1'}, {'PTTL', key}, {'UNLINK', key},
  {'HDEL', key, 'f'}, {'HEXISTS', key, 'f'}, {'HGET', key, 'f'}, {'HGETALL', key}, {'HINCRBY', key, 'f', '1'},
  {'HLEN', key}, {'HMGET', key, 'f'}, {'HSCAN', key, '0'}, {'HSET', key, 'f', 'x'}, {'HSETNX', key, 'f', 'x'},
  {'SADD', key, 'm'}, {'SMEMBERS', key}, {'SREM', key, 'm'},
  {'XADD', key, '*', 'f', 'x'}, {'XLEN', key}, {'XRANGE', key, '-', '+'}, {'XREAD', 'STREAMS', key, '0'},
  {'XREVRANGE', key, '+', '-'}, {'XTRIM', key, 'MAXLEN', '1'},
  {'ZADD', key, '1', 'm'}, {'ZCARD', key}, {'ZRANGE', key, '0', '1'}, {'ZRANGEBYLEX', key, '-', '+'},
  {'ZRANGEBYSCORE', key, '0', '1'}, {'ZREM', key, 'm'}, {'ZREMRANGEBYRANK', key, '0', '1'},
  {'ZREVRANGE', key, '0', '1'}, {'ZREVRANGEBYSCORE', key, '1', '0'}, {'ZSCORE', key, 'm'},
}
local missing = {}
for _, command in ipairs(needed) do
  if not redis.acl_check_cmd(unpack(command)) then missing[#missing + 1] = string.lower(command[1]) end
end
return missing
