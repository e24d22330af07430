-- ARGV: id.
-- Returns OK, and the rest of the member of the item; NONE.

local id = ARGV[1]

local head, fault = load()
if fault then return {'INVALID', fault} end
local place = find('id', id)
if not place then return {'NONE'} end
local at = place:sub(1, 16)
local item = find('item', at, id)
if not item then return {'INVALID', 'the item is missing'} end
return {'OK', table.concat({at, id, item}, '\0')}
