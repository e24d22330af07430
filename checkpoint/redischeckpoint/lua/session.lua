-- Precedes every script that moves a session. KEYS: head, turns, runs, reqs.

local numbers = {'epoch', 'lease', 'born', 'turn', 'first', 'summarized', 'owed', 'failed', 'retry', 'tried'}

-- Fields that a head may lack.
local optional = {owed = true, failed = true, retry = true, tried = true}

-- Returns the head, nil if the session has none, and what is wrong with one that no store wrote.
local function load()
  local fields = redis.pcall('HMGET', KEYS[1], 'nonce', 'owing', unpack(numbers))
  if fields.err then return nil, 'head: ' .. fields.err end
  if not fields[1] and redis.call('EXISTS', KEYS[1]) == 0 then return nil end
  local head = {nonce = fields[1], owing = fields[2]}
  if not head.nonce then return nil, 'head without nonce' end
  for i, name in ipairs(numbers) do
    local v = fields[i + 2]
    head[name] = tonumber(v or nil)
    if not head[name] and (v or not optional[name]) then
      return nil, 'head with ' .. name .. ' ' .. (v or 'missing')
    end
  end
  if head.owed and not head.owing then return nil, 'head that owes, without owing' end
  return head
end

-- What is wrong with a session that has no head: nothing if it has no turns either.
local function headless()
  if redis.call('EXISTS', KEYS[2]) == 1 then return 'its turns are kept, and its head is missing' end
end

-- All keys of a session expire at one instant, or never while it owes a reply. idle is in milliseconds; 0: never.
local function expire(head, now, idle)
  if idle == 0 or head.owed then
    if redis.call('PTTL', KEYS[1]) < 0 then return end
    for _, key in ipairs(KEYS) do redis.call('PERSIST', key) end
    return
  end
  local at = decimal(math.ceil(math.max(head.lease, now) / 1000) + idle)
  for _, key in ipairs(KEYS) do redis.call('PEXPIREAT', key, at) end
end

-- Redis refuses a script at maxmemory only while the script has written nothing, be it in vain. What calls this first passes.
local function pass()
  redis.call('HDEL', KEYS[1], '')
end

-- Adds a stored turn to a reply.
local function add(reply, turn)
  table.insert(reply, turn)
  local row = redis.call('HMGET', KEYS[2], turn .. ':at', turn .. ':run', turn .. ':req', turn, turn .. ':state', turn .. ':payload')
  for _, v in ipairs(row) do table.insert(reply, v or '') end
end
