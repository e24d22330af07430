-- ARGV: entries to be dropped.

drop(1)
return {'OK'}
