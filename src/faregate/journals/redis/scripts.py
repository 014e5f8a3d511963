"""What Redis does for a journal, each as one script: nothing comes in between, and it happens whole or not.

Keys, all under one prefix with one hash tag:
  schema        the version, and a mark of this very journal
  row:KEY       a hash: the columns of `Record` that are not None
  result:KEY    a large result, apart from its row
  due           rows that a sweep may finish, by when it may
  leased        rows that are owed and somebody has, by when the lease ends at the latest
  owners        until when each process is known to live that has leases for longer than their rows say
  keys          how many rows are named under each of the journal's keys
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
local key, stamp, now, purged, candidate_keys = ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
if redis.call('HGET', row_at(key), 'stamp') == stamp then return {{'ok'}} end
for at = 8, 7 + candidate_keys do
  if redis.call('EXISTS', row_at(ARGV[at])) == 1 then return {{'no'}} end
end
forget_expired(now, purged)
local set, cleared = changes_from(8 + candidate_keys)
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

# Of the rows that are due longest, the one that was left alone longest; then one whose owner died. Which one
# this very call took already, if its answer got lost, is told by the lease that it wrote.
TAKE_DUE = f"""{HEAD}{READ}{WRITE}
local now, silent_since, seller, foreign_since = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local page, pages = tonumber(ARGV[7]), tonumber(ARGV[8])
local set, cleared = changes_from(9)
for _, key in ipairs(redis.call('ZRANGEBYSCORE', due, set.lease_until, set.lease_until)) do
  if redis.call('HGET', row_at(key), 'stamp') == set.stamp then return read(key) end
end
local function is_ours(key)
  if redis.call('HGET', row_at(key), 'seller') == seller then return true end
  return tonumber(redis.call('ZSCORE', due, key)) <= tonumber(foreign_since)
end
local function is_silent(key)
  local row = redis.call('HMGET', row_at(key), 'touched_at', 'owner', 'due_at')
  if tonumber(row[1]) > tonumber(silent_since) or tonumber(row[3]) > tonumber(now) then return false end
  local known_until = redis.call('HGET', owners, row[2])
  return not known_until or tonumber(known_until) <= tonumber(now)
end
local function longest_due(keys)
  local chosen, longest
  for _, key in ipairs(keys) do
    local lease = tonumber(redis.call('HGET', row_at(key), 'lease_until'))
    if is_ours(key) and (not chosen or lease < longest) then chosen, longest = key, lease end
  end
  return chosen
end
local function choose()
  for at = 0, pages - 1 do
    local keys = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', at * page, page)
    local chosen = longest_due(keys)
    if chosen or #keys < page then return chosen end
  end
end
local function orphan()
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', leased, '(' .. now, '+inf', 'LIMIT', 0, page * pages)) do
    if is_silent(key) and is_ours(key) then return key end
  end
end
local chosen = choose() or orphan()
if not chosen then return {{'no'}} end
write(chosen, set, cleared)
return read(chosen)
"""

RENEW = f"""{HEAD}
local owner, known_until, dead = ARGV[3], ARGV[4], tonumber(ARGV[5])
local found = redis.call('HGETALL', owners)
for at = 1, #found, 2 do
  if tonumber(found[at + 1]) <= dead then redis.call('HDEL', owners, found[at]) end
end
redis.call('HSET', owners, owner, known_until)
return {{'ok'}}
"""

OWNER_UNTIL = f"""{HEAD}
return {{'ok', redis.call('HGET', owners, ARGV[3]) or '0'}}
"""

KEY_IDS = f"""{HEAD}
return {{'ok', redis.call('HGETALL', keys)}}
"""

# The names of rows, those that owe something and then the others, and what is asked of each.
ROWS = f"""{HEAD}
local rows, first, last = {{}}, tonumber(ARGV[4]), tonumber(ARGV[4]) + tonumber(ARGV[5]) - 1
local index = ARGV[3] == 'owed' and owed or expiring
for _, key in ipairs(redis.call('ZRANGE', index, first, last)) do
  local row = redis.call('HMGET', row_at(key), 'key_id', 'expires_at')
  table.insert(rows, {{key, row[1], row[2]}})
end
return {{'ok', rows}}
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
