-- KEYS: head. OK, born or ''

return {'OK', redis.call('HGET', KEYS[1], 'born') or ''}
