package snapshottest_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

var errAway = errors.New("the part is away")

// A divided store is Memory that cannot reach every third run while a part is away. Its index is elsewhere.
type divided struct {
	*snapshot.Memory
	gone map[string]bool // by session
}

func newDivided() divided { return divided{new(snapshot.Memory), make(map[string]bool)} }

func (d divided) TakeAway(_ context.Context, _ string, all []string) (away []string, back func(), err error) {
	for i, id := range all {
		if i%3 == 1 {
			away = append(away, id)
			d.gone[id] = true
		}
	}
	return away, func() { clear(d.gone) }, nil
}

func (d divided) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range d.Memory.Runs(ctx, q) {
			switch {
			case d.gone[r.Session] && q.Session != "":
				r, err = snapshot.Run{}, errAway
			case d.gone[r.Session]:
				r, err = snapshot.Run{Key: r.Key}, &snapshot.AwayError{Key: r.Key, Err: errAway}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func TestDividedAccepts(t *testing.T) {
	right := func() snapshottest.DividedStore { return newDivided() }
	for name, err := range snapshottest.DividedViolations(t.Context(), right) {
		t.Errorf("%s: %v", name, err)
	}
}

func TestDividedConvicts(t *testing.T) {
	type store = snapshottest.DividedStore
	for name, c := range map[string]struct {
		clause string
		edit   edit
	}{
		"a list ends": {"runs-away", func(r snapshot.Run, err error) (snapshot.Run, error, bool) {
			return r, err, err == nil
		}},
		"a list hides what is away": {"runs-away", func(r snapshot.Run, err error) (snapshot.Run, error, bool) {
			if err != nil {
				r = snapshot.Run{}
			}
			return r, nil, true
		}},
		"a list names no run": {"runs-away", func(r snapshot.Run, err error) (snapshot.Run, error, bool) {
			if err != nil {
				err = errAway
			}
			return r, err, true
		}},
		"a run that is away counts as running": {
			"runs-away",
			func(r snapshot.Run, err error) (snapshot.Run, error, bool) {
				if err != nil {
					r.Status = snapshot.Running
				}
				return r, err, true
			},
		},
		"a run that is away counts as damaged": {
			"run-away",
			func(r snapshot.Run, err error) (snapshot.Run, error, bool) {
				if err != nil {
					r.Key = snapshot.Key{Orchestrator: "bot", Session: "s01"}
					err = &snapshot.AwayError{Key: r.Key, Err: errAway}
				}
				return r, err, true
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.Trial[store]{Violations: snapshottest.DividedViolations}.
				Convict(t, c.clause, func() store { return edited{newDivided(), c.edit} })
		})
	}
}

// An edit changes what a list yields, and says whether the list goes on.
type edit func(r snapshot.Run, err error) (snapshot.Run, error, bool)

// An edited store yields what its edit makes of each run.
type edited struct {
	divided
	edit edit
}

func (s edited) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range s.divided.Runs(ctx, q) {
			r, err, more := s.edit(r, err)
			if !yield(r, err) || !more {
				return
			}
		}
	}
}
