package faulttest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// SnapshotModel compares a store with snapshot.Memory by random histories. Owners begin runs, go on, take over, and
// come back late. It stops like [CheckpointModel].
func SnapshotModel(t *testing.T, newStore func(*testing.T) snapshot.Store) {
	t.Helper()
	s := newStore(t)
	checkWithin(t, func(rt *rapid.T) {
		p := newPair(s)
		follow(rt, p.call, func(ctx context.Context) error {
			return p.sameRuns(ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: p.bot}})
		})
	})
}

// A pair is a store and the reference store.
type pair struct {
	store, model snapshot.Store
	bot          string
	// tops is the highest epoch of any run of the session.
	tops map[snapshot.Key]int64
}

func newPair(s snapshot.Store) pair {
	return pair{s, new(snapshot.Memory), "model " + rand.Text(), map[snapshot.Key]int64{}}
}

// There are few of each, so that the calls of a history concern the same things.
var (
	runSessions = rapid.SampledFrom([]string{"a", "a_", "😀"})
	runIDs      = rapid.SampledFrom([]string{"r1", "r2"})
	runNonces   = rapid.SampledFrom([]string{"n", "m"})
	runCalls    = rapid.SampledFrom(strings.Fields("begin begin adopt adopt save save save delete delete runs"))
	runStatuses = rapid.SampledFrom([]snapshot.Status{
		snapshot.Running, snapshot.Running, snapshot.Waiting,
		snapshot.Suspended, snapshot.Parked, snapshot.Ended,
	})
	partNames = rapid.SampledFrom([]string{"p", "P", "p:", "😀"})
)

// A target is the arguments of a call: a session, and the id and fence of a run, perhaps of another session.
type target struct {
	key   snapshot.Key
	id    string
	fence lock.Fence
	seq   int64
}

func (p pair) target(ctx context.Context, t *rapid.T) target {
	k := snapshot.Key{Orchestrator: p.bot, Session: runSessions.Draw(t, "session")}
	at := target{key: k, id: p.bot + k.Session + runIDs.Draw(t, "run")}
	ahead := rapid.SampledFrom([]int64{-1, 0, 0, 1, 1, 1})
	at.fence = lock.Fence{Epoch: max(1, p.tops[k]+ahead.Draw(t, "epoch")), Nonce: runNonces.Draw(t, "nonce")}
	if r := p.inFlight(ctx, k); r != nil {
		at.seq = max(0, r.Seq+ahead.Draw(t, "seq"))
		if rapid.IntRange(0, 2).Draw(t, "as the owner") > 0 {
			at.fence, at.id = r.Fence, r.ID
		}
	}
	return at
}

func (p pair) call(ctx context.Context, t *rapid.T) error {
	at := p.target(ctx, t)
	switch what := runCalls.Draw(t, "what"); what {
	case "begin":
		r := drawRun(t, at)
		got, err := p.store.Begin(ctx, r)
		want, wantErr := p.model.Begin(ctx, r)
		if want == nil && wantErr == nil {
			p.tops[at.key] = r.Fence.Epoch
		}
		return errors.Join(same(what, err, wantErr), sameFound(got, want))
	case "adopt":
		attempts := rapid.IntRange(0, 3).Draw(t, "attempts")
		got, err := p.store.Adopt(ctx, at.key, at.fence, attempts)
		want, wantErr := p.model.Adopt(ctx, at.key, at.fence, attempts)
		if !errors.Is(wantErr, lock.ErrFenced) {
			p.tops[at.key] = at.fence.Epoch
		}
		return errors.Join(same(what, err, wantErr), sameRun(got, want))
	case "save":
		r := drawRun(t, at)
		return same(what, p.store.Save(ctx, r), p.model.Save(ctx, r))
	case "delete":
		return same(what, p.store.Delete(ctx, at.key, at.id, at.fence), p.model.Delete(ctx, at.key, at.id, at.fence))
	default:
		return p.sameRuns(ctx, drawQuery(t, at.key))
	}
}

func drawRun(t *rapid.T, at target) snapshot.Run {
	r := snapshot.Run{
		Key: at.key, ID: at.id, Fence: at.fence, Seq: at.seq, Status: runStatuses.Draw(t, "status"),
		Attempt: rapid.IntRange(0, 3).Draw(t, "attempt"),
		Error:   rapid.SampledFrom([]string{"", "why"}).Draw(t, "error"),
		Pause:   time.Duration(rapid.SampledFrom([]int{0, 0, 10, 20, 30}).Draw(t, "pause")) * time.Hour,
	}
	if rapid.Bool().Draw(t, "with payload") {
		r.Payload = drawDocument(t)
	}
	for range rapid.IntRange(0, 2).Draw(t, "parts") {
		if r.Parts == nil {
			r.Parts = make(map[string]json.RawMessage)
		}
		r.Parts[partNames.Draw(t, "part")] = drawDocument(t)
	}
	return r
}

func drawDocument(t *rapid.T) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 1<<30).Draw(t, "document")))
}

func drawQuery(t *rapid.T, k snapshot.Key) snapshot.Query {
	q := snapshot.Query{Key: snapshot.Key{Orchestrator: k.Orchestrator}, Limit: rapid.IntRange(0, 2).Draw(t, "limit")}
	q.After = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "after")
	if rapid.Bool().Draw(t, "one") {
		q.Session = k.Session
	}
	if rapid.Bool().Draw(t, "one status") {
		q.Status = runStatuses.Draw(t, "status")
	}
	q.Brief, q.Unattended = rapid.Bool().Draw(t, "brief"), rapid.Bool().Draw(t, "unattended")
	return q
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
	return fmt.Errorf("%s: got error %v, want %v", what, got, want)
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

// sameRun compares all fields except the stores' times. Pauses last many hours, of which little has passed.
func sameRun(got, want snapshot.Run) error {
	bare := func(r snapshot.Run) snapshot.Run {
		r.Payload, r.Parts, r.Pause, r.Age = nil, nil, 0, 0
		r.NotBefore, r.StartedAt, r.SavedAt = time.Time{}, time.Time{}, time.Time{}
		return r
	}
	off := got.Pause - want.Pause
	paused := off.Abs() < time.Hour && got.NotBefore.IsZero() == want.NotBefore.IsZero()
	same := paused && reflect.DeepEqual(bare(got), bare(want)) && sameJSON(got.Payload, want.Payload) &&
		maps.EqualFunc(got.Parts, want.Parts, sameJSON)
	if !same {
		return fmt.Errorf("got run %s, want %s", described(got), described(want))
	}
	return nil
}

func described(r snapshot.Run) string {
	payload, parts := r.Payload, r.Parts
	r.Payload, r.Parts = nil, nil
	return fmt.Sprintf("%+v with payload %s and parts %s", r, payload, parts)
}

// RacingBegins makes n Begins, three on each new session at once. One must win, and the others must get the winner.
// Without HOLDFAST_SOAK=1, a tenth of them is enough.
func RacingBegins(t *testing.T, newStore func(*testing.T) snapshot.Store, n int) {
	t.Helper()
	if !soak() {
		n /= 10
	}
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
