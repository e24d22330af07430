-- Precedes every script on a session. KEYS: run, and past where entries of the index are barred.

local minute = 60 * 1000000

-- What decides. The last three are the store's own: the call that began the run, its index entry, whether it has parts.
-- Without a run in flight only the first four are kept, for a time, and the status is over.
local deciding = {'id', 'epoch', 'nonce', 'status', 'attempt', 'seq', 'call', 'entry', 'parts'}
local remembered, over = 4, 'over'

local numbers = {'epoch', 'attempt', 'seq'}
local statuses = {running = true, waiting = true, suspended = true, parked = true, ended = true}

-- Returns what decides about the run in flight, what is kept of it or of the last run, and what is wrong with what no
-- store wrote. Without a run in flight, or anything kept, that is nil.
local function load()
  local v = redis.pcall('HMGET', KEYS[1], unpack(deciding))
  if v.err then return nil, nil, 'run: ' .. v.err end
  if not v[1] and redis.call('EXISTS', KEYS[1]) == 0 then return nil end
  for i = 1, v[4] == over and remembered or #deciding do
    if not v[i] then return nil, nil, 'run without ' .. deciding[i] end
  end
  local kept = {
    id = v[1], epoch = v[2], nonce = v[3], status = v[4], attempt = v[5], seq = v[6], call = v[7], entry = v[8], parts = v[9],
  }
  for _, name in ipairs(numbers) do
    local n = kept[name]
    if n and n ~= '0' and not n:find('^[1-9]%d*$') then return nil, nil, 'run with ' .. name .. ' ' .. n end
  end
  if kept.status == over then return nil, kept end
  if not statuses[kept.status] then return nil, nil, 'run with status ' .. kept.status end
  return kept, kept
end

-- Epochs and Seqs have more digits than a number of Lua holds: they stay text.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- Whether the session has seen a higher fence, or another one with this epoch.
local function fenced(kept, epoch, nonce)
  return kept and (less(epoch, kept.epoch) or epoch == kept.epoch and nonce ~= kept.nonce)
end

-- Keeps the id and the fence of a run that was deleted, or the fence of who has looked for a run, with '' for id. What
-- the session had is gone. time is in ms.
local function keep(id, epoch, nonce, time)
  redis.call('UNLINK', KEYS[1])
  redis.call('HSET', KEYS[1], 'id', id, 'epoch', epoch, 'nonce', nonce, 'status', over)
  redis.call('PEXPIRE', KEYS[1], time)
end

-- Returns until when a run waits that is saved now. pause is in microseconds, '' for none.
local function notbefore(now, pause)
  return pause == '' and '' or decimal(now + pause)
end

-- An entry of the index that no run may rely on is barred for an hour.
local function bar(entry, now)
  redis.call('ZADD', KEYS[2], decimal(now), entry)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', decimal(now - 60 * minute))
  redis.call('PEXPIRE', KEYS[2], 60 * minute / 1000)
end

local function barred(entry)
  return redis.call('ZSCORE', KEYS[2], entry)
end

