package redischeckpoint

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

// damaged turns the Fault of a script into a *checkpoint.DamagedError of the session.
func damaged(k checkpoint.Key, err error) error {
	if fault, ok := errors.AsType[*redisstore.Fault](err); ok {
		return checkpoint.Damaged(k, fault)
	}
	return err
}

// away returns the *checkpoint.AwayError of a session, if err says that the session's node is away. After the end of
// ctx a node is not at fault.
func away(ctx context.Context, k checkpoint.Key, err error) error {
	if _, is := errors.AsType[*redisstore.Away](err); is && ctx.Err() == nil {
		return &checkpoint.AwayError{Key: k, Err: err}
	}
	return err
}

// damagedClaim returns the lease under which a session may be deleted, if err says that the session is damaged.
func damagedClaim(k checkpoint.Key, nonce string, err error) (c checkpoint.Claimed, _ error) {
	fault, ok := errors.AsType[*redisstore.Fault](err)
	if !ok {
		return c, err
	}
	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: time.Now().UnixMicro(), Nonce: nonce}}
	if len(fault.Told) > 0 {
		if epoch, err := strconv.ParseInt(fault.Told[0], 10, 64); err == nil {
			c.Fence.Epoch = epoch
		}
	}
	return c, checkpoint.Damaged(k, fault)
}
