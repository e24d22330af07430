-- ARGV: epoch, nonce, turn, run id, request id, rest (details), state, payload, keep, owes, release, owing entry,
-- idle in ms, 1 to relabel, then places of the labels, and before each the token of its entry or ''.
-- Returns OK, then the places that the session had and now has not, and before each the token of its entry. Returns
-- LABEL and the places that have to be entered first.

local epoch, nonce, n, run, request, rest, state, payload, keep, owes, release, token, idle, relabel = unpack(ARGV, 1, 14)

local head, fault = load()
if fault then return {'INVALID', fault} end
if not head then return {'FENCED'} end
local turn = tonumber(n)
local ours = decimal(head.epoch) == epoch and head.nonce == nonce
if not ours or turn ~= head.turn + 1 then
  if kept(head, 'run:' .. run) then return {'KNOWN'} end
  return {ours and 'CONFLICT' or 'FENCED'}
end
if redis.call('HEXISTS', KEYS[1], n) == 1 then
  return {'INVALID', 'turn ' .. n .. ' is stored, and the head says that it is not settled'}
end
if owes == '1' and not head.owed then
  if not head.owing then
    if token == '' then return {'INDEX'} end
    head.owing = token
  end
  head.owed = turn
end

local reply, labels = {'OK'}, {}
if relabel == '1' then
  local had = places(redis.call('HGET', KEYS[1], 'labels')) or {}
  local missing = {'LABEL'}
  for i = 15, #ARGV, 2 do
    local token, place = ARGV[i], ARGV[i + 1]
    if token == '' then token = had[place] end
    if not token then table.insert(missing, place) end
    had[place] = nil
    table.insert(labels, place .. '\0' .. (token or '') .. '\0')
  end
  if #missing > 1 then return missing end
  for place, token in pairs(had) do
    table.insert(reply, token)
    table.insert(reply, place)
  end
end

local now = clock()
redis.call('HSET', KEYS[1], n, rest, n .. ':at', decimal(now), n .. ':run', run, n .. ':req', request,
  n .. ':state', state, n .. ':payload', payload, 'run:' .. run, n)
if request ~= '' then redis.call('HSET', KEYS[1], 'req:' .. request, n) end

local first = math.max(head.first, math.min(turn - tonumber(keep) + 1, head.owed or turn + 1))
local cleared = head.cleared or head.first
local upTo = math.min(first, cleared + atOnce)
for i = cleared, upTo - 1 do
  local old = decimal(i)
  local ids = redis.call('HMGET', KEYS[1], old .. ':run', old .. ':req')
  local run, request = 'run:' .. (ids[1] or ''), 'req:' .. (ids[2] or '')
  local turns = redis.call('HMGET', KEYS[1], run, request)
  -- If a later turn has the same id, the id points to the later turn, and stays.
  redis.call('HDEL', KEYS[1], old, old .. ':at', old .. ':run', old .. ':req', old .. ':state', old .. ':payload',
    turns[1] == old and run or old, turns[2] == old and request or old)
end

local moved = {'turn', n, 'first', decimal(first), 'cleared', decimal(upTo)}
local function move(name, value)
  table.insert(moved, name)
  table.insert(moved, value)
end
if head.owed then
  move('owed', decimal(head.owed))
  move('owing', head.owing)
end
if release == '1' then
  head.lease = now
  move('nonce', '')
  move('lease', decimal(now))
end
if relabel == '1' then move('labels', table.concat(labels)) end
redis.call('HSET', KEYS[1], unpack(moved))
head.turn = turn
expire(head, now, tonumber(idle))
return reply
