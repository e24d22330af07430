-- Precedes each script on a session but look.lua. KEYS: the session. It is one key, so that a script finds all of the
-- session or nothing while a cluster moves its slot.

local numbers = {'epoch', 'lease', 'born', 'turn', 'first', 'summarized', 'owed', 'failed', 'retry', 'tried', 'cleared'}

-- Fields that a head may lack.
local optional = {owed = true, failed = true, retry = true, tried = true, cleared = true}

-- The most turns that one Append removes. A server does nothing else meanwhile.
local atOnce = 1000

-- Returns the number that a text is; nil if it is no integer, or has more digits than a number of Lua holds. tonumber
-- alone takes "inf" too, and a loop from there never ends.
local function integer(text)
  local n = text and text:find('^%-?%d+$') and tonumber(text)
  return n and math.abs(n) < 2 ^ 53 and n or nil
end

-- Returns the head. Returns nil if the session has no head. If no store wrote the head, returns nil and the fault.
local function load()
  local fields, wrong = hmget(KEYS[1], 'nonce', 'owing', unpack(numbers))
  if wrong then return nil, 'head: ' .. wrong end
  local head = {nonce = fields[1], owing = fields[2]}
  if not head.nonce then
    for i = 2, #numbers + 2 do
      if fields[i] then return nil, 'head without nonce' end
    end
    return nil
  end
  for i, name in ipairs(numbers) do
    local v = fields[i + 2]
    head[name] = integer(v)
    if not head[name] and (v or not optional[name]) then
      return nil, 'head with ' .. name .. ' ' .. (v or 'missing')
    end
  end
  if head.owed and not head.owing then return nil, 'head that owes, without owing' end
  return head
end

-- Returns the fault of a session without a head. Returns nothing if the session has no turns either.
local function headless()
  if redis.call('EXISTS', KEYS[1]) == 1 then return 'its turns are kept, and its head is missing' end
end

-- Returns the turn that the id of a run or a request points to, unless the turn is pruned. The fields of a pruned turn
-- may be removed later.
local function kept(head, id)
  local turn = redis.call('HGET', KEYS[1], id)
  return turn and (tonumber(turn) or -1) >= head.first and turn
end

-- A session expires whole, or never while it owes a reply. idle is in milliseconds, 0: never. unsettled is idle for a
-- session that has settled nothing.
local function expire(head, now, idle, unsettled)
  if head.turn < 0 then idle = unsettled end
  if idle == 0 or head.owed then
    redis.call('PERSIST', KEYS[1])
    return
  end
  redis.call('PEXPIREAT', KEYS[1], decimal(math.ceil(math.max(head.lease, now) / 1000) + idle))
end

-- At maxmemory Redis refuses a script only while the script has written nothing. A write without effect counts too. So
-- a script that calls pass first is not refused.
local function pass()
  redis.call('HDEL', KEYS[1], '')
end

-- Adds a stored turn to a reply.
local function add(reply, turn)
  table.insert(reply, turn)
  local row = redis.call('HMGET', KEYS[1], turn .. ':at', turn .. ':run', turn .. ':req', turn, turn .. ':state',
    turn .. ':payload')
  for _, v in ipairs(row) do table.insert(reply, v or '') end
end
