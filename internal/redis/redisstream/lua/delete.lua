-- KEYS: the stream of the session. Returns OK.

redis.call('UNLINK', KEYS[1])
redis.call('PUBLISH', KEYS[1], '-')
return {'OK'}
