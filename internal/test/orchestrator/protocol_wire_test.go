package orchestrator_test

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A wire connects one process with its stores.
type wire struct {
	world

	// pass gets each call of the process that changes data, and returns the answer of the process. send asks the store.
	// It may be called late, or never.
	pass func(ctx context.Context, r request, send func(context.Context) error) error
}

// A request describes a call. Delete of a checkpoint store is called Remove.
type request struct {
	method  string
	session string
	run     string
	status  snapshot.Status // of a Save
	fence   lock.Fence      // of an Append
}

// ends are the stores as the process sees them.
func (w *wire) ends() world {
	return world{wiredCheckpoints{w.checkpoints, w}, wiredSnapshots{w.snapshots, w}}
}

type wiredCheckpoints struct {
	checkpoint.Store
	wire *wire
}

func (s wiredCheckpoints) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	err = s.wire.pass(ctx, request{method: "Claim", session: k.Session}, func(ctx context.Context) (err error) {
		c, err = s.Store.Claim(ctx, k, r)
		return err
	})
	return c, err
}

func (s wiredCheckpoints) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) (lost []checkpoint.Lease, err error) {
	err = s.wire.pass(ctx, request{method: "Renew"}, func(ctx context.Context) (err error) {
		lost, err = s.Store.Renew(ctx, ttl, leases)
		return err
	})
	return lost, err
}

func (s wiredCheckpoints) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	r := request{method: "Append", session: l.Session, run: cp.RunID, fence: l.Fence}
	return s.wire.pass(ctx, r, func(ctx context.Context) error { return s.Store.Append(ctx, l, cp, o) })
}

func (s wiredCheckpoints) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	r := request{method: "Mark", session: l.Session}
	return s.wire.pass(ctx, r, func(ctx context.Context) error { return s.Store.Mark(ctx, l, m) })
}

func (s wiredCheckpoints) Delete(ctx context.Context, l checkpoint.Lease) error {
	r := request{method: "Remove", session: l.Session}
	return s.wire.pass(ctx, r, func(ctx context.Context) error { return s.Store.Delete(ctx, l) })
}

type wiredSnapshots struct {
	snapshot.Store
	wire *wire
}

func (s wiredSnapshots) Begin(ctx context.Context, r snapshot.Run) (found *snapshot.Run, err error) {
	err = s.wire.pass(ctx, request{method: "Begin", session: r.Session, run: r.ID},
		func(ctx context.Context) (err error) {
			found, err = s.Store.Begin(ctx, r)
			return err
		})
	return found, err
}

func (s wiredSnapshots) Adopt(
	ctx context.Context, k snapshot.Key, f lock.Fence, attempts int,
) (r snapshot.Run, err error) {
	err = s.wire.pass(ctx, request{method: "Adopt", session: k.Session}, func(ctx context.Context) (err error) {
		r, err = s.Store.Adopt(ctx, k, f, attempts)
		return err
	})
	return r, err
}

func (s wiredSnapshots) Save(ctx context.Context, r snapshot.Run) error {
	about := request{method: "Save", session: r.Session, run: r.ID, status: r.Status}
	return s.wire.pass(ctx, about, func(ctx context.Context) error { return s.Store.Save(ctx, r) })
}

func (s wiredSnapshots) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	r := request{method: "Delete", session: k.Session, run: id}
	return s.wire.pass(ctx, r, func(ctx context.Context) error { return s.Store.Delete(ctx, k, id, f) })
}
