package snapshottest_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// Each broken Settle must be caught by the clause that it breaks.
func TestSuiteConvictsJoin(t *testing.T) {
	type pair = func() (snapshottest.JoiningStore, checkpoint.Store)
	trial := suite.Trial[pair]{
		Violations: func(ctx context.Context, open func() pair, names ...string) map[string]error {
			return snapshottest.JoinViolations(ctx, open(), names...)
		},
	}
	for name, c := range map[string]struct {
		clause string
		settle func(runs *snapshot.Memory, turns *checkpoint.Memory) snapshot.Settle
	}{
		"the run stays":               {"join-settles", onlyAppends},
		"two transactions":            {"join-atomic", appendsThenDeletes},
		"the run goes first":          {"join-refused", deletesFirst},
		"the run goes first, if ours": {"join-taken", deletesFirst},
		"any id":                      {"join-other", deletesAny},
		"nothing in flight fails":     {"join-none", insistsOnRun},
		"options are forgotten":       {"join-options", dropsOptions},
		"Fresh is forgotten":          {"join-repeat", dropsOptions},
		"always forgotten":            {"join-other", alwaysForgotten},
		"the fence goes too":          {"join-fence", forgetsFence},
		"the document of parts stays": {"join-parts", func(runs *snapshot.Memory, turns *checkpoint.Memory) snapshot.Settle { return runs.Join(turns) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, func() pair {
				return func() (snapshottest.JoiningStore, checkpoint.Store) {
					runs, turns := new(snapshot.Memory), new(checkpoint.Memory)
					j := &jointly{Store: runs, settle: c.settle(runs, turns)}
					if c.clause == "join-parts" {
						j.settle = j.keepingParts(j.settle)
					}
					return j, turns
				}
			})
		})
	}
}

// The clauses accept a correct Settle.
func TestSuiteAcceptsJoin(t *testing.T) {
	found := snapshottest.JoinViolations(t.Context(), func() (snapshottest.JoiningStore, checkpoint.Store) {
		return new(snapshot.Memory), new(checkpoint.Memory)
	})
	for _, name := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: %v", name, found[name])
	}
}

// jointly is a store with another Settle.
type jointly struct {
	snapshot.Store
	settle snapshot.Settle
	left   *snapshot.Run // the next run gets its parts
}

func (j *jointly) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	r, err := j.Store.Adopt(ctx, k, f, maxAttempts)
	if j.left != nil {
		r.Parts = j.left.Parts
	}
	return r, err
}

func (j *jointly) Join(checkpoint.Store) snapshot.Settle { return j.settle }

func deleteOf(ctx context.Context, runs snapshot.Store, l checkpoint.Lease, id string) bool {
	return runs.Delete(ctx, l.Key, id, l.Fence) == nil
}

func onlyAppends(_ *snapshot.Memory, turns *checkpoint.Memory) snapshot.Settle {
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		return false, turns.Append(ctx, l, cp, o)
	}
}

func appendsThenDeletes(runs *snapshot.Memory, turns *checkpoint.Memory) snapshot.Settle {
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		if err := turns.Append(ctx, l, cp, o); err != nil {
			return false, err
		}
		pause()
		return deleteOf(ctx, runs, l, cp.RunID), nil
	}
}

func deletesFirst(runs *snapshot.Memory, turns *checkpoint.Memory) snapshot.Settle {
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		gone := deleteOf(ctx, runs, l, cp.RunID)
		err := turns.Append(ctx, l, cp, o)
		return gone && err == nil, err
	}
}

func deletesAny(runs *snapshot.Memory, turns *checkpoint.Memory) snapshot.Settle {
	settle := runs.Join(turns)
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		forgotten, err := settle(ctx, l, cp, o)
		if r := find(ctx, runs, l.Key); err == nil && r != nil {
			_ = runs.Delete(ctx, r.Key, r.ID, r.Fence)
		}
		return forgotten, err
	}
}

func insistsOnRun(runs *snapshot.Memory, turns *checkpoint.Memory) snapshot.Settle {
	settle := runs.Join(turns)
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		if find(ctx, runs, l.Key) == nil {
			return false, lock.ErrFenced
		}
		return settle(ctx, l, cp, o)
	}
}

func dropsOptions(runs *snapshot.Memory, turns *checkpoint.Memory) snapshot.Settle {
	settle := runs.Join(turns)
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		return settle(ctx, l, cp, checkpoint.AppendOptions{Release: o.Release})
	}
}

func alwaysForgotten(runs *snapshot.Memory, turns *checkpoint.Memory) snapshot.Settle {
	settle := runs.Join(turns)
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		_, err := settle(ctx, l, cp, o)
		return true, err
	}
}

// forgetsFence keeps nothing of a session when it deletes the run.
func forgetsFence(runs *snapshot.Memory, turns *checkpoint.Memory) snapshot.Settle {
	settle := runs.Join(turns)
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		forgotten, err := settle(ctx, l, cp, o)
		runs.Remember = 1
		_, _ = runs.Sweep(ctx, 0)
		return forgotten, err
	}
}

// keepingParts leaves the parts of a run, and the next run finds them.
func (j *jointly) keepingParts(settle snapshot.Settle) snapshot.Settle {
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		r, err := j.Adopt(ctx, l.Key, l.Fence, 0)
		j.left = &r
		if err != nil {
			return false, err
		}
		return settle(ctx, l, cp, o)
	}
}
