package redissnapshot

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/snapshot"
)

// judge turns a fault that a script found in a run into a *snapshot.DamagedError. It returns the run as far as the
// script could read it. With any other error it returns an empty run.
func judge(k snapshot.Key, err error) (snapshot.Run, error) {
	fault, ok := errors.AsType[*redisstore.Fault](err)
	if !ok {
		return snapshot.Run{}, err
	}
	r := snapshot.Run{Key: k}
	if len(fault.Told) == 2 {
		r.ID, r.Status = fault.Told[0], snapshot.Status(fault.Told[1])
	}
	return r, snapshot.Damaged(k, fault)
}
