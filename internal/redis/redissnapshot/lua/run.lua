-- Precedes every script on a session. KEYS: run. A session has one key, so that a script finds all of it or nothing
-- while a cluster moves its slot. For the same reason no script removes the key and writes it again.

local minute = 60 * 1000000

-- The status of a session without a run in flight.
local over = 'over'

local deciding = {'id', 'epoch', 'nonce', 'status', 'attempt', 'seq', 'call', 'entry', 'parts'}

-- Returns three values. The first has the fields that decide about the run in flight; nil if none is in flight. The
-- second has what is kept of that run, or of the last one; nil if nothing is kept. The third says what is wrong if no
-- store wrote the key. Then the second value has the fields that can be read; nil if the key is no hash.
-- Of the last run only id, epoch, nonce, found and barred are kept. found is the highest epoch of a Begin that has
-- found a run in flight, if there was one. barred is the highest token of an index entry that no run may rely on. call
-- began the run, entry is its entry in the index, and parts is 1 if it has any.
local function load()
  local v, wrong = hmget(KEYS[1], 'id', 'epoch', 'nonce', 'status', 'attempt', 'seq', 'call', 'entry', 'parts', 'found',
    'barred')
  if wrong then return nil, nil, 'run: ' .. wrong end
  if not v[1] and redis.call('EXISTS', KEYS[1]) == 0 then return nil end
  local kept = {
    id = v[1], epoch = v[2], nonce = v[3], status = v[4], attempt = v[5], seq = v[6], call = v[7], entry = v[8], parts = v[9],
    found = v[10] or '0', barred = v[11] or '0',
  }
  local s = kept.status
  local function odd(name)
    local n = kept[name]
    return n and n ~= '0' and not n:find('^[1-9]%d*$') and 'run with ' .. name .. ' ' .. n
  end
  kept.legible = kept.epoch and kept.nonce and not odd('epoch') -- the fence can be read
  for _, name in ipairs(deciding) do
    if not kept[name] and (s ~= over or name == 'id' or name == 'epoch' or name == 'nonce') then
      return nil, kept, 'run without ' .. name
    end
  end
  if s == over then
    local fault = odd('epoch') or odd('found') or odd('barred')
    if fault then return nil, kept, fault end
    return nil, kept
  end
  if s ~= 'running' and s ~= 'waiting' and s ~= 'suspended' and s ~= 'parked' and s ~= 'ended' then
    return nil, kept, 'run with status ' .. s
  end
  local fault = odd('epoch') or odd('found') or odd('barred') or odd('attempt') or odd('seq')
  if fault then return nil, kept, fault end
  return kept, kept
end

-- Returns the reply that says what is wrong, and as much of the run as can be read.
local function damaged(fault, kept)
  return {'INVALID', fault, kept and kept.id or '', kept and kept.status or ''}
end

-- Epochs and Seqs stay text, because they have more digits than a number of Lua holds.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- Returns whether the session has seen a higher fence, or another fence with this epoch. A fence that cannot be read
-- counts as no higher.
local function fenced(kept, epoch, nonce)
  return kept and kept.legible and (less(epoch, kept.epoch) or epoch == kept.epoch and nonce ~= kept.nonce)
end

-- At maxmemory Redis refuses a command only until the script has made its first write, even a write without effect. A
-- script that calls pass first is not refused.
local function pass()
  redis.call('HDEL', KEYS[1], '')
end

-- Lua unpacks no more than some thousands of values at once.
local function inChunks(command, values)
  local most = 1000
  for i = 1, #values, most do
    redis.call(command, KEYS[1], unpack(values, i, math.min(i + most - 1, #values)))
  end
end

local stays = {id = true, epoch = true, nonce = true, found = true, status = true, barred = true}

-- Keeps the id and the fence of a deleted run, or the fence of an Adopt that found no run, with '' for id. Except found
-- and barred, it removes what the session had. time is in ms.
local function keep(id, epoch, nonce, found, barred, time)
  redis.call('HSET', KEYS[1], 'id', id, 'epoch', epoch, 'nonce', nonce, 'found', found, 'status', over,
    'barred', barred)
  local gone = {}
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if not stays[field] then table.insert(gone, field) end
  end
  inChunks('HDEL', gone)
  redis.call('PEXPIRE', KEYS[1], time)
end

-- Returns until when a run waits if it is saved now. pause is in microseconds, '' for none.
local function notbefore(now, pause)
  return pause == '' and '' or decimal(now + pause)
end

-- Returns the highest barred token once entry is barred. No run may rely on a token up to that one. Tokens are times.
local function above(kept, entry)
  return decimal(math.max(tonumber(kept and kept.barred) or 0, tonumber(entry) or 0))
end

-- Bars an entry of the index, and all entries before it, for at least an hour. No run is in flight.
local function bar(kept, entry)
  local barred, hour = above(kept, entry), 60 * minute / 1000
  pass()
  if not kept then return keep('', '0', '', '0', barred, hour) end
  redis.call('HSET', KEYS[1], 'barred', barred)
  if redis.call('PTTL', KEYS[1]) < hour then redis.call('PEXPIRE', KEYS[1], hour) end
end
