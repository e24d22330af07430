package snapshottest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

const bot = "bot"

// A probe is a store whose verbs leave the clause if they fail. Only the clause's goroutine may call them.
type probe struct {
	ctx   context.Context
	store snapshot.Store
}

func key(session string) snapshot.Key {
	return snapshot.Key{Orchestrator: bot, Session: session}
}

var nonces atomic.Int64

// fence returns a fence of this epoch with a nonce of its own.
func fence(epoch int64) lock.Fence {
	return lock.Fence{Epoch: epoch, Nonce: fmt.Sprintf("nonce-%d", nonces.Add(1))}
}

// run returns a run that is ready to begin.
func run(session string, f lock.Fence) snapshot.Run {
	return snapshot.Run{
		Key: key(session), ID: fmt.Sprintf("run-of-%s-%s", session, f.Nonce), Attempt: 1, Status: snapshot.Running,
		Fence: f, Payload: json.RawMessage(`{"step":0}`),
	}
}

func (p *probe) begin(r snapshot.Run) snapshot.Run {
	found, err := p.store.Begin(p.ctx, r)
	ok(err)
	if found != nil {
		fail("Begin of %s finds %s in flight", r.ID, found.ID)
	}
	return r
}

// begun begins a run of epoch 10.
func (p *probe) begun(session string) snapshot.Run { return p.begin(run(session, fence(10))) }

func (p *probe) save(r snapshot.Run) { ok(p.store.Save(p.ctx, r)) }

func (p *probe) adopt(r snapshot.Run, f lock.Fence, maxAttempts int) snapshot.Run {
	got, err := p.store.Adopt(p.ctx, r.Key, f, maxAttempts)
	ok(err)
	return got
}

// next returns the owner's next save of the run: one step on.
func next(r snapshot.Run) snapshot.Run {
	r.Seq++
	r.Payload = json.RawMessage(fmt.Sprintf(`{"step":%d}`, r.Seq))
	return r
}

// inFlight returns the session's run, or nil.
func (p *probe) inFlight(session string) *snapshot.Run {
	runs := p.runs(snapshot.Query{Key: snapshot.Key{Session: session}})
	switch len(runs) {
	case 0:
		return nil
	case 1:
		return &runs[0]
	}
	fail("session %q has %d runs in flight", session, len(runs))
	return nil
}

// wantRun compares the session's run with the last write.
func (p *probe) wantRun(want snapshot.Run) {
	got := p.inFlight(want.Session)
	if got == nil {
		fail("no run is in flight, want %s", want.ID)
		return
	}
	ok(sameRun(*got, bare(want)))
}

// wantWhole compares want with the run and the parts that an Adopt under the run's own fence returns.
func (p *probe) wantWhole(want snapshot.Run) {
	ok(sameRun(p.adopt(want, want.Fence, 0), want))
	p.wantRun(want)
}

func (p *probe) wantNone(session string) {
	if got := p.inFlight(session); got != nil {
		fail("run %s is in flight, want none", got.ID)
	}
}

func (p *probe) runs(q snapshot.Query) []snapshot.Run {
	q.Orchestrator = bot
	var runs []snapshot.Run
	for r, err := range p.store.Runs(p.ctx, q) {
		ok(err)
		runs = append(runs, r)
	}
	return runs
}

func (p *probe) wantSessions(q snapshot.Query, want ...string) {
	got := []string{}
	for _, r := range p.runs(q) {
		got = append(got, r.Session)
	}
	if want == nil {
		want = []string{}
	}
	if !reflect.DeepEqual(got, want) {
		fail("runs of %+v are of %q, want %q", q, got, want)
	}
}

// bare returns r without its parts.
func bare(r snapshot.Run) snapshot.Run {
	r.Parts = nil
	return r
}

// sameRun compares all fields except StartedAt, SavedAt and Age.
func sameRun(got, want snapshot.Run) error {
	numbers := func(r snapshot.Run) snapshot.Run {
		r.Payload, r.Parts, r.Pause, r.Age = nil, nil, 0, 0
		r.NotBefore, r.StartedAt, r.SavedAt = time.Time{}, time.Time{}, time.Time{}
		return r
	}
	if g, w := numbers(got), numbers(want); !reflect.DeepEqual(g, w) {
		return fmt.Errorf("got %+v, want %+v", g, w)
	}
	if err := samePause(got, want); err != nil {
		return err
	}
	if err := sameParts(got.Parts, want.Parts); err != nil {
		return err
	}
	return sameJSON(got.Payload, want.Payload)
}

// samePause compares how long a run waits. Some of the time may be over, and the store's clock may be another one.
func samePause(got, want snapshot.Run) error {
	if want.Pause == 0 {
		if got.Pause != 0 || !got.NotBefore.IsZero() {
			return fmt.Errorf("pause of %v until %v, want none", got.Pause, got.NotBefore)
		}
		return nil
	}
	over, off := want.Pause-got.Pause, time.Until(got.NotBefore)-got.Pause
	wrong := got.Pause < 0 || over < -time.Second || over > suite.Patience
	if wrong || off.Abs() > time.Hour || got.NotBefore.Location() != time.UTC {
		return fmt.Errorf("pause of %v until %v, want %v", got.Pause, got.NotBefore, want.Pause)
	}
	return nil
}

func sameParts(got, want map[string]json.RawMessage) error {
	names := func(parts map[string]json.RawMessage) []string { return slices.Sorted(maps.Keys(parts)) }
	if !slices.Equal(names(got), names(want)) {
		return fmt.Errorf("parts %.200q, want %.200q", names(got), names(want))
	}
	for name := range want {
		if err := sameJSON(got[name], want[name]); err != nil {
			return fmt.Errorf("part %.60q: %w", name, err)
		}
	}
	return nil
}

// sameJSON compares values. The clauses write numbers in their shortest form.
func sameJSON(got, want json.RawMessage) error {
	if bytes.Equal(got, want) {
		return nil
	}
	g, err := canonical(got)
	if err != nil {
		return err
	}
	w, err := canonical(want)
	if err != nil {
		return err
	}
	if !bytes.Equal(g, w) {
		return fmt.Errorf("document %.200s, want %.200s", got, want)
	}
	return nil
}

func canonical(doc json.RawMessage) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w in %.200q", err, doc)
	}
	return json.Marshal(v)
}

func together(fs ...func()) { suite.Together(fs...) }
