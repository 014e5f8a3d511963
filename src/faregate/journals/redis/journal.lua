-- The journal in Redis: each command is one run of this script. Redis runs nothing else meanwhile, so a command
-- sees and writes one consistent state; and a script that fails on its checks has written nothing.
--
-- Keys, all with one prefix, and one hash tag, per namespace:
--   schema        version and id of this journal (KEYS[1])
--   row:KEY       a hash: the columns of `Record` that are not None
--   result:KEY    a large result, apart from its row
--   due           rows that a sweep may finish, scored by when it may
--   leased        open rows with an owner, scored by when the lease ends at the latest
--   owners        until when each process is known to live whose leases last longer than its rows say
--   keys          how many rows are stored under each journal key
--   owed          open rows, scored by when they were claimed
--   unfetched     settled rows that were never delivered, scored by when they may be removed
--   delivered     settled rows that were, scored by when they lose their result
--   remembered    rows that were delivered and have no result any more, scored by when they may be deleted
--   expiring      the other rows, scored by when they may be deleted
--   transactions  which row has a transaction
--   purchases     which row has a purchase
--   authorizations  the members HASH:KEY, of the hash of an authorization and the key of a row that has it
--   bytes         the size of all results
--
-- ARGV: the journal id; 'first', or 'again' if it was sent before and the reply was lost; the command; its
-- arguments. The reply of a write is whether it was done; of a search, the row or nil. An error is TAKEN (the
-- transaction has another row), PURCHASED (the purchase has one), IMPOSSIBLE with the rule that was broken, or WRONGJOURNAL with the id found.
--
-- schema.py puts the rules of a row and the names of its columns in front, as functions: only what a run needs
-- is made.

local journal_id = redis.call('GET', KEYS[1])
-- An empty or restored server answers as promptly as ever. Without this check open payments would seem new.
if journal_id ~= ARGV[1] then return redis.error_reply('WRONGJOURNAL ' .. (journal_id or '')) end
local is_repeated = ARGV[2] == 'again'

local prefix = string.sub(KEYS[1], 1, -7)
local due, owed, expiring = prefix .. 'due', prefix .. 'owed', prefix .. 'expiring'
local leased, owners, keys = prefix .. 'leased', prefix .. 'owners', prefix .. 'keys'
local unfetched, delivered, remembered = prefix .. 'unfetched', prefix .. 'delivered', prefix .. 'remembered'
local authorizations = prefix .. 'authorizations'
local purchases = prefix .. 'purchases'
local transactions, bytes = prefix .. 'transactions', prefix .. 'bytes'
local function row_at(key) return prefix .. 'row:' .. key end
local function result_at(key) return prefix .. 'result:' .. key end

-- Reading and deleting

-- The key, and the columns but for the result, which may be large; false for a column that is null.
local function read(key)
  local row = redis.call('HMGET', row_at(key), get_columns())
  if not row[1] then return false end
  table.insert(row, 1, key)
  return row
end

-- What rules and indexes need to know of a row; empty if there is none.
local function load(key)
  local names = {
    'stamp', 'state', 'reason', 'transaction_id', 'size', 'expires_at', 'lease_until', 'due_at', 'since',
    'owner', 'key_id', 'proof', 'payer', 'payment_response', 'receipt', 'delivered', 'apart', 'forget_at',
    'authorization_hash', 'purchase'}
  local row, values = {}, redis.call('HMGET', row_at(key), unpack(names))
  for at, name in ipairs(names) do row[name] = values[at] or nil end
  if row.stamp then row.result = row.apart or redis.call('HEXISTS', row_at(key), 'result') == 1 or nil end
  return row
end

local function apply(row, set, cleared)
  local after = {}
  for name, value in pairs(row) do
    if not cleared[name] then after[name] = value end
  end
  for name, value in pairs(set) do after[name] = value end
  after.result = after.result or after.apart
  return after
end

-- The index that a row with an expiry is in.
local function get_index(row)
  if row.state == 'settled' then return row.delivered == '1' and delivered or unfetched end
  return row.state == 'paid' and row.delivered == '1' and remembered or expiring
end

local function get_scores(row)
  if not row.stamp then return {} end
  if row.expires_at then return {[get_index(row)] = row.expires_at} end
  if row.state == 'stuck' then return {[owed] = row.since} end
  -- A row without an owner is not leased, whatever the clock says.
  local leased_until = row.owner ~= '' and row.lease_until or nil
  local is_longer = leased_until and tonumber(leased_until) > tonumber(row.due_at)
  return {[owed] = row.since, [due] = is_longer and leased_until or row.due_at, [leased] = leased_until}
end

local function update_unique(index, before, after, key)
  if before == after then return end
  if before then redis.call('HDEL', index, before) end
  if after then redis.call('HSET', index, after, key) end
end

local function update_indexes(key, before, after)
  local scores_before, scores_after = get_scores(before), get_scores(after)
  for index, score in pairs(scores_before) do
    if not scores_after[index] then redis.call('ZREM', index, key) end
  end
  for index, score in pairs(scores_after) do
    if score ~= scores_before[index] then redis.call('ZADD', index, score, key) end
  end
  local growth = tonumber(after.size or 0) - tonumber(before.size or 0)
  if growth ~= 0 then redis.call('INCRBY', bytes, growth) end
  update_unique(transactions, before.transaction_id, after.transaction_id, key)
  update_unique(purchases, before.purchase, after.purchase, key)
end

local function get_member(key, row)
  return row.authorization_hash and row.authorization_hash ~= '' and row.authorization_hash .. ':' .. key
end

local function delete(key, row)
  redis.call('DEL', row_at(key), result_at(key))
  if get_member(key, row) then redis.call('ZREM', authorizations, get_member(key, row)) end
  update_indexes(key, row, {})
  if redis.call('HINCRBY', keys, row.key_id, -1) <= 0 then redis.call('HDEL', keys, row.key_id) end
end

local function delete_from(index, until_score, limit)
  local chosen = redis.call('ZRANGEBYSCORE', index, '-inf', until_score, 'LIMIT', 0, limit)
  for _, key in ipairs(chosen) do delete(key, load(key)) end
  return #chosen
end

local function delete_expired(now, limit)
  local deleted = delete_from(expiring, now, limit)
  return deleted + delete_from(remembered, now, limit - deleted)
end

-- Writing. `apart` is a result that is stored under a key of its own.

local function parse_changes(args, first)
  local set, cleared, at = {}, {}, first + 1
  for _ = 1, tonumber(args[first]) do
    set[args[at]] = args[at + 1]
    at = at + 2
  end
  for cleared_at = at, #args do cleared[args[cleared_at]] = true end
  return set, cleared
end

local function clear_columns(key, cleared)
  local names = {}
  for name in pairs(cleared) do table.insert(names, name) end
  if #names > 0 then redis.call('HDEL', row_at(key), unpack(names)) end
  if cleared.apart then redis.call('DEL', result_at(key)) end
end

local function set_columns(key, set)
  local flat = {}
  for name, value in pairs(set) do
    if name == 'apart' then
      redis.call('SET', result_at(key), value)
      value = '1'
    end
    table.insert(flat, name)
    table.insert(flat, value)
  end
  redis.call('HSET', row_at(key), unpack(flat))
end

local function write(key, before, after, set, cleared)
  -- A row that becomes final gives up its proof. With its memory full, Redis refuses a script whose first write
  -- needs more, but lets one go on that freed some first. So open rows can still end, and no new ones begin.
  if cleared.proof then clear_columns(key, cleared) end
  set_columns(key, set)
  if not cleared.proof then clear_columns(key, cleared) end
  if not before.key_id then
    redis.call('HINCRBY', keys, set.key_id, 1)
    if get_member(key, set) then redis.call('ZADD', authorizations, 0, get_member(key, set)) end
  end
  update_indexes(key, before, after)
end

-- The rules of a row, as the constraints of a SQL store. All are checked before the first write: Redis does not
-- roll back.

local function find_broken_rule(before, after, set)
  local transitions, state = get_transitions(), after.state
  if not transitions[state] then return 'known_state' end
  local padded = ' ' .. state .. ' '
  local broken = find_broken_column_rule(after, padded)
  if broken then return broken end
  if has_wrong_reason(after.reason, padded) then return 'stuck_for_a_reason' end
  if not before.state then return nil end
  if not is_in(transitions[before.state], padded) then return 'never_back' end
  if before.result and (set.result or set.apart) then return 'decided_once' end
end

local function write_checked(key, before, set, cleared)
  local other = set.transaction_id and redis.call('HGET', transactions, set.transaction_id)
  if other and other ~= key then return redis.error_reply('TAKEN') end
  local first = set.purchase and redis.call('HGET', purchases, set.purchase)
  if first and first ~= key then return redis.error_reply('PURCHASED') end
  local after = apply(before, set, cleared)
  local rule = find_broken_rule(before, after, set)
  if rule then return redis.error_reply('IMPOSSIBLE ' .. rule) end
  write(key, before, after, set, cleared)
  return true
end

-- Of a delivered row, keep only that it was paid. Clear first: see `write`.
local function drop_result(key)
  local row, cleared = load(key), {result = true, apart = true, receipt = true}
  cleared.payment_response, cleared.request_line = true, true
  local set = {state = 'paid', stamp = '-1' .. row.stamp, expires_at = row.forget_at, client = '', body = ''}
  set.size = '0'
  clear_columns(key, cleared)
  write(key, row, apply(row, set, cleared), set, {})
  -- Write the hash anew: one that ever had a long value needs twice the memory.
  local columns = redis.call('HGETALL', row_at(key))
  redis.call('DEL', row_at(key))
  redis.call('HSET', row_at(key), unpack(columns))
end

local function drop_results(now, limit)
  local expired = redis.call('ZRANGEBYSCORE', delivered, '-inf', now, 'LIMIT', 0, limit)
  for _, key in ipairs(expired) do drop_result(key) end
  return #expired
end

-- Commands

local COMMANDS = {}

function COMMANDS.find(args)
  for _, key in ipairs(args) do
    local row = read(key)
    if row then return row end
  end
  return false
end

function COMMANDS.find_result(args)
  local row = redis.call('HMGET', row_at(args[1]), 'result', 'apart')
  return row[2] and redis.call('GET', result_at(args[1])) or row[1]
end

function COMMANDS.find_transaction(args)
  local key = redis.call('HGET', transactions, args[1])
  return key and read(key)
end

function COMMANDS.find_purchase(args)
  local key = redis.call('HGET', purchases, args[1])
  return key and read(key)
end

function COMMANDS.find_authorization(args)
  local own, now, chosen = args[1], tonumber(args[2]), nil
  for at = 3, #args do
    for _, member in ipairs(redis.call('ZRANGEBYLEX', authorizations, '[' .. args[at] .. ':', '(' .. args[at] .. ';')) do
      local key = string.sub(member, #args[at] + 2)
      local row = key ~= own and load(key) or {}
      local expired = row.expires_at and tonumber(row.expires_at) <= now and row.state ~= 'settled'
      if row.stamp and row.state ~= 'closed' and not expired then
        if row.transaction_id then return read(key) end
        chosen = key
      end
    end
  end
  return chosen and read(chosen)
end

function COMMANDS.insert(args)
  local key, stamp, now, purged, candidates = args[1], args[2], args[3], args[4], tonumber(args[5])
  for at = 6, 5 + candidates do
    local found = redis.call('HGET', row_at(args[at]), 'stamp')
    if found then return found == stamp and args[at] == key end
  end
  drop_results(now, purged)
  delete_expired(now, purged)
  return write_checked(key, {}, parse_changes(args, 6 + candidates))
end

-- Compare-and-swap on the stamp. A row that has the new one already was written by this very call.
function COMMANDS.replace(args)
  local key, stamp = args[1], args[2]
  local row, set, cleared = load(key), parse_changes(args, 3)
  if row.stamp and row.stamp == set.stamp then return true end
  if row.stamp ~= stamp then return false end
  return write_checked(key, row, set, cleared)
end

function COMMANDS.delete(args)
  local row = load(args[1])
  if not row.stamp and is_repeated then return true end
  if row.stamp ~= args[2] then return false end
  delete(args[1], row)
  return true
end

-- Of the rows that are due, the one whose lease ended first; else one whose owner died.
function COMMANDS.take_due(args)
  local now, silent_since, seller, foreign_since = args[1], args[2], args[3], args[4]
  local page, pages = tonumber(args[5]), tonumber(args[6])
  local set, cleared = parse_changes(args, 7)
  -- The row that this very call took, if its reply was lost: it has the lease that the call wrote.
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
  local function find_longest_due(candidates)
    local chosen, longest
    for _, key in ipairs(candidates) do
      local lease = tonumber(redis.call('HGET', row_at(key), 'lease_until'))
      if is_ours(key) and (not chosen or lease < longest) then chosen, longest = key, lease end
    end
    return chosen
  end
  local function find_due()
    for at = 0, pages - 1 do
      local candidates = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', at * page, page)
      local chosen = find_longest_due(candidates)
      if chosen or #candidates < page then return chosen end
    end
  end
  local function find_orphan()
    local candidates = redis.call('ZRANGEBYSCORE', leased, '(' .. now, '+inf', 'LIMIT', 0, page * pages)
    for _, key in ipairs(candidates) do
      if is_silent(key) and is_ours(key) then return key end
    end
  end
  local chosen = find_due() or find_orphan()
  if not chosen then return false end
  local row = load(chosen)
  write(chosen, row, apply(row, set, cleared), set, cleared)
  return read(chosen)
end

function COMMANDS.renew(args)
  local owner, known_until, dead = args[1], args[2], tonumber(args[3])
  local found = redis.call('HGETALL', owners)
  for at = 1, #found, 2 do
    if tonumber(found[at + 1]) <= dead then redis.call('HDEL', owners, found[at]) end
  end
  redis.call('HSET', owners, owner, known_until)
  return true
end

function COMMANDS.owner_until(args)
  return redis.call('HGET', owners, args[1])
end

function COMMANDS.key_ids()
  return redis.call('HGETALL', keys)
end

-- A page of the rows in an index: key, journal key, and when it is removed.
function COMMANDS.list_rows(args)
  local rows, first = {}, tonumber(args[2])
  for _, key in ipairs(redis.call('ZRANGE', prefix .. args[1], first, first + tonumber(args[3]) - 1)) do
    local row = redis.call('HMGET', row_at(key), 'key_id', 'expires_at', 'forget_at')
    table.insert(rows, {key, row[1], row[3] or row[2]})
  end
  return rows
end

-- Whole rows of a page.
function COMMANDS.read_rows(args)
  local rows, first = {}, tonumber(args[2])
  for _, key in ipairs(redis.call('ZRANGE', prefix .. args[1], first, first + tonumber(args[3]) - 1)) do
    table.insert(rows, read(key))
  end
  return rows
end

-- Rows of an index up to a score, the first ones first; the names of the columns wanted follow the limit.
function COMMANDS.list(args)
  local columns, rows = {unpack(args, 4)}, {}
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', prefix .. args[1], '-inf', args[2], 'LIMIT', 0, args[3])) do
    local row = redis.call('HMGET', row_at(key), unpack(columns))
    table.insert(row, 1, key)
    table.insert(rows, row)
  end
  return rows
end

function COMMANDS.drop_results(args)
  return drop_results(args[1], args[2])
end

function COMMANDS.purge(args)
  return delete_expired(args[1], tonumber(args[2]))
end

function COMMANDS.forget_delivered(args)
  return delete_from(remembered, '+inf', args[1])
end

function COMMANDS.measure()
  local rows = 0
  for _, index in ipairs({owed, expiring, unfetched, delivered, remembered}) do
    rows = rows + redis.call('ZCARD', index)
  end
  return {rows, tonumber(redis.call('GET', bytes) or 0)}
end

return COMMANDS[ARGV[3]]({unpack(ARGV, 4)})
