-- Returns OK, the number of the last chunk, the status and the run; NONE.

local head, fault = load()
if fault then return {'INVALID', fault} end
if not head then return {'NONE'} end
return {'OK', decimal(head.last), head.status, head.run}
