package faulttest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// SnapshotModel compares a store with snapshot.Memory, by random histories of owners who come, go on, take over and come
// back late. It stops like [CheckpointModel].
func SnapshotModel(t *testing.T, newStore func(*testing.T) snapshot.Store) {
	t.Helper()
	s := newStore(t)
	checkWithin(t, func(rt *rapid.T) {
		p := pair{s, new(snapshot.Memory), "model " + rand.Text()}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {},
			"call": func(rt *rapid.T) {
				if err := p.call(rt.Context(), rt); err != nil {
					rt.Fatal(err)
				}
			},
		})
		if err := p.sameRuns(rt.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: p.bot}}); err != nil {
			rt.Fatal(err)
		}
	})
}

// A pair is a store, and what it is compared with.
type pair struct {
	store, model snapshot.Store
	bot          string
}

// Few of each, so that histories meet themselves.
var (
	runSessions = rapid.SampledFrom([]string{"a", "a_", "😀"})
	runIDs      = rapid.SampledFrom([]string{"r1", "r2"})
	runFences   = rapid.Custom(func(t *rapid.T) lock.Fence {
		return lock.Fence{Epoch: rapid.Int64Range(1, 4).Draw(t, "epoch"), Nonce: rapid.SampledFrom([]string{"n", "m"}).Draw(t, "nonce")}
	})
	runStatuses = rapid.SampledFrom([]snapshot.Status{snapshot.Running, snapshot.Running, snapshot.Waiting, snapshot.Suspended, snapshot.Parked, snapshot.Ended})
)

func (p pair) call(ctx context.Context, t *rapid.T) error {
	k := snapshot.Key{Orchestrator: p.bot, Session: runSessions.Draw(t, "session")}
	f := runFences.Draw(t, "fence")
	id := p.bot + k.Session + runIDs.Draw(t, "run")
	if owner := p.inFlight(ctx, k); owner != nil && rapid.Bool().Draw(t, "as the owner") {
		f, id = owner.Fence, owner.ID
	}
	switch what := rapid.SampledFrom([]string{"begin", "adopt", "save", "save", "delete", "runs"}).Draw(t, "what"); what {
	case "begin", "save":
		r := snapshot.Run{
			Key: k, ID: id, Fence: f, Status: runStatuses.Draw(t, "status"), Seq: rapid.Int64Range(0, 5).Draw(t, "seq"),
			Attempt: rapid.IntRange(0, 3).Draw(t, "attempt"), Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, rapid.Int().Draw(t, "payload"))),
		}
		if rapid.Bool().Draw(t, "later") {
			r.NotBefore = time.Unix(rapid.Int64Range(1, 1<<32).Draw(t, "not before"), 123456789)
		}
		if what == "begin" {
			r.Fence = lock.Fence{Epoch: f.Epoch, Nonce: rand.Text()} // no caller begins a run twice under one fence
		}
		if what == "save" {
			return same(what, p.store.Save(ctx, r), p.model.Save(ctx, r))
		}
		got, err := p.store.Begin(ctx, r)
		want, wantErr := p.model.Begin(ctx, r)
		return errors.Join(same(what, err, wantErr), sameFound(got, want))
	case "adopt":
		attempts := rapid.IntRange(0, 3).Draw(t, "attempts")
		got, err := p.store.Adopt(ctx, k, f, attempts)
		want, wantErr := p.model.Adopt(ctx, k, f, attempts)
		return errors.Join(same(what, err, wantErr), sameRun(got, want))
	case "delete":
		return same(what, p.store.Delete(ctx, k, id, f), p.model.Delete(ctx, k, id, f))
	default:
		q := snapshot.Query{Key: snapshot.Key{Orchestrator: p.bot}, Limit: rapid.IntRange(0, 2).Draw(t, "limit")}
		q.After = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "after")
		if rapid.Bool().Draw(t, "one") {
			q.Session = k.Session
		}
		if rapid.Bool().Draw(t, "one status") {
			q.Status = runStatuses.Draw(t, "status")
		}
		return p.sameRuns(ctx, q)
	}
}

func (p pair) inFlight(ctx context.Context, k snapshot.Key) *snapshot.Run {
	for r, err := range p.model.Runs(ctx, snapshot.Query{Key: k}) {
		if err == nil {
			return &r
		}
	}
	return nil
}

func (p pair) sameRuns(ctx context.Context, q snapshot.Query) error {
	got, err := collectRuns(ctx, p.store, q)
	want, wantErr := collectRuns(ctx, p.model, q)
	if len(got) != len(want) {
		return fmt.Errorf("runs of %+v: got %+v, want %+v: %w", q, got, want, errors.Join(err, wantErr))
	}
	for i := range got {
		err = errors.Join(err, sameRun(got[i], want[i]))
	}
	return errors.Join(err, wantErr)
}

func collectRuns(ctx context.Context, s snapshot.Store, q snapshot.Query) (runs []snapshot.Run, err error) {
	for r, e := range s.Runs(ctx, q) {
		if e != nil {
			return runs, e
		}
		runs = append(runs, r)
	}
	return runs, nil
}

var snapshotVerdicts = []error{lock.ErrFenced, snapshot.ErrNotFound, snapshot.ErrParked, snapshot.ErrInvalid}

func same(what string, got, want error) error {
	for _, v := range snapshotVerdicts {
		if errors.Is(got, v) && errors.Is(want, v) {
			return nil
		}
	}
	if got == nil && want == nil {
		return nil
	}
	return fmt.Errorf("%s: got error %w, want %w", what, got, want)
}

func sameFound(got, want *snapshot.Run) error {
	if got == nil || want == nil {
		if got != want {
			return fmt.Errorf("found %+v, want %+v", got, want)
		}
		return nil
	}
	return sameRun(*got, *want)
}

// sameRun compares all but the stores' clocks.
func sameRun(got, want snapshot.Run) error {
	var g, w any
	if len(got.Payload)+len(want.Payload) > 0 {
		if err := errors.Join(json.Unmarshal(got.Payload, &g), json.Unmarshal(want.Payload, &w)); err != nil {
			return err
		}
	}
	bare := func(r snapshot.Run) snapshot.Run {
		r.Payload, r.StartedAt, r.SavedAt = nil, time.Time{}, time.Time{}
		return r
	}
	if !reflect.DeepEqual(g, w) || !reflect.DeepEqual(bare(got), bare(want)) {
		return fmt.Errorf("got run %+v, want %+v", got, want)
	}
	return nil
}

// RacingBegins races n Begins for sessions of their own, three for each: one wins, and the others get the winner.
func RacingBegins(t *testing.T, newStore func(*testing.T) snapshot.Store, n int) {
	t.Helper()
	s := newStore(t)
	const rivals, at = 3, 8
	sessions := make(chan string, n/rivals+1)
	for i := range n / rivals {
		sessions <- fmt.Sprintf("s%d", i)
	}
	close(sessions)
	var wg sync.WaitGroup
	for range at {
		wg.Go(func() {
			for session := range sessions {
				if err := raceBegins(t.Context(), s, session, rivals); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func raceBegins(ctx context.Context, s snapshot.Store, session string, rivals int) error {
	found := make([]*snapshot.Run, rivals)
	errs := make([]error, rivals)
	var wg sync.WaitGroup
	id := func(i int) string { return fmt.Sprintf("%s-%d", session, i) }
	for i := range rivals {
		wg.Go(func() {
			found[i], errs[i] = s.Begin(ctx, snapshot.Run{
				Key: snapshot.Key{Orchestrator: "bot", Session: session}, ID: id(i), Status: snapshot.Running,
				Fence: lock.Fence{Epoch: int64(i + 1), Nonce: "n"}, Payload: json.RawMessage(`{}`),
			})
		})
	}
	wg.Wait()
	winner := ""
	for i, f := range found {
		if f == nil && errs[i] == nil {
			if winner != "" {
				return fmt.Errorf("%s and %s both began", winner, id(i))
			}
			winner = id(i)
		}
	}
	for i, f := range found {
		if id(i) != winner && (f == nil || f.ID != winner) {
			return fmt.Errorf("%s began, and the rival %s got %+v: %w", winner, id(i), f, errors.Join(errs...))
		}
	}
	return errors.Join(errs...)
}
