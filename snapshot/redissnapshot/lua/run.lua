-- Precedes every script on a session. KEYS: run, past.

local minute = 60 * 1000000

-- What a caller may see of a run, in the order in which it is told and given.
local shown = {'id', 'request', 'turn', 'attempt', 'base', 'status', 'seq', 'epoch', 'nonce', 'error', 'not_before', 'payload', 'started', 'saved'}

-- What decides, and is the store's own: the nonce that began the run, the call that did, its index entry.
local deciding = {'id', 'attempt', 'status', 'seq', 'epoch', 'nonce', 'begun', 'call', 'entry'}

local numbers = {'attempt', 'seq', 'epoch'}
local statuses = {running = true, waiting = true, suspended = true, parked = true, ended = true}

-- Returns what decides, nil if no run is in flight, and what is wrong with one that no store wrote.
local function load()
  local values = redis.pcall('HMGET', KEYS[1], unpack(deciding))
  if values.err then return nil, 'run: ' .. values.err end
  if not values[1] and redis.call('EXISTS', KEYS[1]) == 0 then return nil end
  local run = {}
  for i, name in ipairs(deciding) do
    if not values[i] then return nil, 'run without ' .. name end
    run[name] = values[i]
  end
  for _, name in ipairs(numbers) do
    if not run[name]:find('^[1-9]%d*$') and run[name] ~= '0' then return nil, 'run with ' .. name .. ' ' .. run[name] end
  end
  if not statuses[run.status] then return nil, 'run with status ' .. run.status end
  return run
end

-- Returns a reply that tells the run.
local function tell(verdict)
  local reply = redis.call('HMGET', KEYS[1], unpack(shown))
  for i, name in ipairs(shown) do
    if not reply[i] then return {'INVALID', 'run without ' .. name} end
  end
  table.insert(reply, 1, verdict)
  return reply
end

-- Epochs and Seqs have more digits than a number of Lua holds: they stay text.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- What is barred stays so for an hour: an entry of the index that no run may rely on, a run that is over.
local function bar(what, now)
  redis.call('ZADD', KEYS[2], decimal(now), what)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', decimal(now - 60 * minute))
  redis.call('PEXPIRE', KEYS[2], 60 * minute / 1000)
end

local function barred(what)
  return redis.call('ZSCORE', KEYS[2], what)
end

local function over(id, nonce)
  return 'run ' .. id .. '\0' .. nonce
end

