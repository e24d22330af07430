-- ARGV: the entries to drop.

drop(1)
return {'OK'}
