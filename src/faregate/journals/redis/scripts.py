"""What Redis does for a journal, each as one script: nothing comes in between, and it happens whole or not.

Keys, all under one prefix with one hash tag:
  schema        the version, and a mark of this very journal
  row:KEY       a hash: the columns of `Record` that are not None
  result:KEY    a large result, apart from its row
  due           rows that a sweep may finish, by when it may
  owed          rows that owe something, by since when
  expiring      the other rows, by when they may be forgotten
  transactions  which row has a transaction
  bytes         the size of all results

Every script is told the journal's mark, and whether it was sent before and its answer lost. It answers with
a word and what belongs to it: `ok`, `no`, `taken`, `impossible` with the rule, or `elsewhere` with the mark.
"""

from faregate.journals.redis.parts import FORGET, HEAD, READ, RULES, WRITE

FIND = f"""{HEAD}{READ}
for at = 3, #ARGV do
  if redis.call('EXISTS', row_at(ARGV[at])) == 1 then return read(ARGV[at]) end
end
return {{'no'}}
"""

FIND_TRANSACTION = f"""{HEAD}{READ}
local key = redis.call('HGET', transactions, ARGV[3])
return key and read(key) or {{'no'}}
"""

INSERT = f"""{HEAD}{FORGET}{WRITE}{RULES}
local key, stamp, now, purged, rivals = ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
if redis.call('HGET', row_at(key), 'stamp') == stamp then return {{'ok'}} end
for at = 8, 7 + rivals do
  if redis.call('EXISTS', row_at(ARGV[at])) == 1 then return {{'no'}} end
end
forget_expired(now, purged)
local set, cleared = changes_from(8 + rivals)
local refusal = refused(key, set, cleared)
if refusal then return refusal end
write(key, set, cleared)
return {{'ok'}}
"""

REPLACE = f"""{HEAD}{WRITE}{RULES}
local key, stamp = ARGV[3], ARGV[4]
local set, cleared = changes_from(5)
local here = redis.call('HGET', row_at(key), 'stamp')
if here and here == set.stamp then return {{'ok'}} end
if here ~= stamp then return {{'no'}} end
local refusal = refused(key, set, cleared)
if refusal then return refusal end
write(key, set, cleared)
return {{'ok'}}
"""

DELETE = f"""{HEAD}{FORGET}
local here = redis.call('HGET', row_at(ARGV[3]), 'stamp')
if not here and ARGV[2] == 'again' then return {{'ok'}} end
if here ~= ARGV[4] then return {{'no'}} end
forget(ARGV[3])
return {{'ok'}}
"""

# Of the rows that are due longest, the one that was left alone longest. Which one this very call took
# already, if its answer got lost, is told by the lease that it wrote.
TAKE_DUE = f"""{HEAD}{READ}{WRITE}
local now, looked_at = ARGV[3], ARGV[4]
local set, cleared = changes_from(5)
for _, key in ipairs(redis.call('ZRANGEBYSCORE', due, set.lease_until, set.lease_until)) do
  if redis.call('HGET', row_at(key), 'stamp') == set.stamp then return read(key) end
end
local chosen, longest
for _, key in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, looked_at)) do
  local lease = tonumber(redis.call('HGET', row_at(key), 'lease_until'))
  if not chosen or lease < longest then chosen, longest = key, lease end
end
if not chosen then return {{'no'}} end
write(chosen, set, cleared)
return read(chosen)
"""

# Without what is sealed, which may be large: the names of the other columns follow the limit.
OWED = f"""{HEAD}
local columns, rows = {{}}, {{}}
for at = 4, #ARGV do table.insert(columns, ARGV[at]) end
for _, key in ipairs(redis.call('ZRANGEBYSCORE', owed, '-inf', '+inf', 'LIMIT', 0, ARGV[3])) do
  table.insert(rows, {{key, redis.call('HMGET', row_at(key), unpack(columns))}})
end
return {{'ok', rows}}
"""

PURGE = f"""{HEAD}{FORGET}
return {{'ok', forget_expired(ARGV[3], ARGV[4])}}
"""

MEASURE = f"""{HEAD}
local rows = redis.call('ZCARD', owed) + redis.call('ZCARD', expiring)
return {{'ok', rows, tonumber(redis.call('GET', bytes) or 0)}}
"""
