"""What the scripts are made of, in Lua (`faregate.journals.redis.scripts`)."""

HEAD = """
local journal = redis.call('GET', KEYS[1])
if journal ~= ARGV[1] then return {'elsewhere', journal or ''} end
local prefix = string.sub(KEYS[1], 1, -7)
local due, owed, expiring = prefix .. 'due', prefix .. 'owed', prefix .. 'expiring'
local leased, owners, keys = prefix .. 'leased', prefix .. 'owners', prefix .. 'keys'
local transactions, bytes = prefix .. 'transactions', prefix .. 'bytes'
local function row_at(key) return prefix .. 'row:' .. key end
local function result_at(key) return prefix .. 'result:' .. key end
"""

READ = """
local function read(key)
  local row = redis.call('HGETALL', row_at(key))
  if #row == 0 then return {'no'} end
  return {'ok', key, row, redis.call('GET', result_at(key))}
end
"""

FORGET = """
local function forget(key)
  local row = redis.call('HMGET', row_at(key), 'transaction_id', 'size', 'key_id')
  redis.call('DEL', row_at(key), result_at(key))
  for _, index in ipairs({due, owed, expiring, leased}) do redis.call('ZREM', index, key) end
  if row[1] then redis.call('HDEL', transactions, row[1]) end
  redis.call('DECRBY', bytes, row[2])
  if redis.call('HINCRBY', keys, row[3], -1) <= 0 then redis.call('HDEL', keys, row[3]) end
end
local function forget_expired(now, limit)
  local keys = redis.call('ZRANGEBYSCORE', expiring, '-inf', now, 'LIMIT', 0, limit)
  for _, key in ipairs(keys) do forget(key) end
  return #keys
end
"""

# `apart` is a result that is kept under its own key. With its memory full, Redis refuses a script that begins
# with more, and lets one write on that made room: so a row comes to its end, and no other gets any further.
WRITE = """
local function changes_from(first)
  local set, cleared, at = {}, {}, first + 1
  for _ = 1, tonumber(ARGV[first]) do
    set[ARGV[at]] = ARGV[at + 1]
    at = at + 2
  end
  for cleared_at = at, #ARGV do cleared[ARGV[cleared_at]] = true end
  return set, cleared
end
local function put(index, score, key)
  if score then redis.call('ZADD', index, score, key) else redis.call('ZREM', index, key) end
end
local function index(key)
  local row = redis.call(
    'HMGET', row_at(key), 'state', 'expires_at', 'lease_until', 'due_at', 'since', 'owner')
  local until_due = tonumber(row[3]) > tonumber(row[4]) and row[3] or row[4]
  put(expiring, row[2], key)
  put(owed, not row[2] and row[5], key)
  put(due, not row[2] and row[1] ~= 'stuck' and until_due, key)
  put(leased, not row[2] and row[1] ~= 'stuck' and row[6] ~= '' and row[3], key)
end
local function clear(key, cleared)
  local names = {}
  for name in pairs(cleared) do table.insert(names, name) end
  if #names > 0 then redis.call('HDEL', row_at(key), unpack(names)) end
  if cleared.apart then redis.call('DEL', result_at(key)) end
end
local function fill(key, set)
  local pairs_set = {}
  if set.apart then
    redis.call('SET', result_at(key), set.apart)
    set.apart = '1'
  end
  for name, value in pairs(set) do
    table.insert(pairs_set, name)
    table.insert(pairs_set, value)
  end
  redis.call('HSET', row_at(key), unpack(pairs_set))
end
local function write(key, set, cleared)
  local before = redis.call('HMGET', row_at(key), 'transaction_id', 'size')
  if cleared.proof then clear(key, cleared) end
  fill(key, set)
  if not cleared.proof then clear(key, cleared) end
  if before[1] and (set.transaction_id or cleared.transaction_id) then
    redis.call('HDEL', transactions, before[1])
  end
  if set.transaction_id then redis.call('HSET', transactions, set.transaction_id, key) end
  if set.size then redis.call('INCRBY', bytes, tonumber(set.size) - tonumber(before[2] or 0)) end
  if set.key_id then redis.call('HINCRBY', keys, set.key_id, 1) end
  index(key)
end
"""

RULES = """
local function list(words)
  local set = {}
  for word in string.gmatch(words, '%S+') do set[word] = true end
  return set
end
local OWED = list('open waiting running ok failed stuck')
local FINAL = list('settled closed paid')
local NEXT = {
  ok = list('ok settled closed paid stuck'), failed = list('failed settled closed paid stuck'),
  settled = list('settled'), closed = list('closed'), paid = list('paid')
}
local function broken(key, set, cleared)
  local row = row_at(key)
  local function has(name)
    if set[name] then return true end
    return not cleared[name] and redis.call('HEXISTS', row, name) == 1
  end
  local was = redis.call('HGET', row, 'state')
  local now = set.state or was
  local decided = now == 'ok' or now == 'failed' or now == 'settled'
  local result, settled = has('result') or has('apart'), now == 'settled'
  local reason = set.reason or redis.call('HGET', row, 'reason')
  if not (now == 'claimed' or OWED[now] or FINAL[now]) then return 'known_state' end
  if has('transaction_id') == (now == 'claimed') then return 'claimed_has_no_transaction' end
  if has('expires_at') == (OWED[now] or false) then return 'owed_never_expires' end
  if now ~= 'stuck' and result ~= decided then return 'decided_has_its_outcome' end
  if has('payment_response') ~= settled or has('receipt') ~= settled then return 'settled_is_proven' end
  if has('proof') == (FINAL[now] or false) then return 'proof_until_final' end
  if (reason ~= '') ~= (now == 'stuck') then return 'stuck_for_a_reason' end
  if not was then return nil end
  if NEXT[was] and not NEXT[was][now] then return 'never_back' end
  if now == 'claimed' and was ~= 'claimed' then return 'never_back' end
  if settled and not (was == 'ok' or was == 'stuck' or was == 'settled') then return 'never_back' end
  local had = redis.call('HEXISTS', row, 'result') + redis.call('HEXISTS', row, 'apart') > 0
  if had and (set.result or set.apart) then return 'decided_once' end
end
local function refused(key, set, cleared)
  local owner = set.transaction_id and redis.call('HGET', transactions, set.transaction_id)
  if owner and owner ~= key then return {'taken'} end
  local rule = broken(key, set, cleared)
  return rule and {'impossible', rule}
end
"""
