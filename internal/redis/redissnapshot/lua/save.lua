-- ARGV: id, request, turn, attempt, base, status, seq, epoch, nonce, error, pause, payload or '' to leave it, and of
-- each part name and document. With a payload these are all parts of the run. Without a payload they are added.
-- Returns OK; FENCED.

local id, request, turn, attempt, base, status, seq, epoch, nonce, failure, pause, payload = unpack(ARGV, 1, 12)

local run, kept, fault = load()
if fault then return damaged(fault, kept) end
if not run or run.id ~= id or run.epoch ~= epoch or run.nonce ~= nonce then return {'FENCED'} end
if not less(run.seq, seq) then return {'OK'} end
if run.status == 'ended' then return {'FENCED'} end
local has = #ARGV > 12 and '1' or '0'
local field, document = 'payload', payload
if payload == '' then
  field, document = 'seq', seq -- seq once more: so one call writes all in either case
  if run.parts == '1' then has = '1' end
elseif run.parts == '1' then
  inChunks('HDEL', parts())
end
local now = clock()
redis.call('HSET', KEYS[1], 'request', request, 'turn', turn, 'attempt', attempt, 'base', base, 'status', status,
  'seq', seq, 'error', failure, 'not_before', notbefore(now, pause), 'saved', decimal(now), 'parts', has, field, document)
if #ARGV > 12 then add(13) end
return {'OK'}
