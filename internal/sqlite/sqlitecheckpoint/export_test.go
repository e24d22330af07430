package sqlitecheckpoint

// SetEpoch makes the store have issued an epoch.
func (s *Store) SetEpoch(epoch int64) { s.epoch = epoch }
