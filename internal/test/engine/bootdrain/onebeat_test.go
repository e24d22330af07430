package bootdrain_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Two orchestrators of a process have turns in flight on one database. The process beats once a second. When it is
// killed, another process that watches takes the turns of both over.
func TestOneBeatOfAProcess(t *testing.T) {
	sites(t, func(t *testing.T, s site, _ opened) {
		s.Defaults, s.Conns, s.TTL = true, 4, longLease
		w := openSite(t, s)
		sessions := names("s", 4)
		p := job{Do: execute, Site: s, Body: wait, Sessions: sessions, Text: "hello", Bots: 2}.start(t)
		p.hear(inFlight)
		w.wantBeating(t, sessions...)
		<-time.After(time.Second) // another would beat by now
		began := time.Now()
		name, before := w.onlyBeat(t)
		again, after := name, before
		for again == name && after < before+5 {
			<-time.After(time.Second)
			again, after = w.onlyBeat(t)
		}
		n, took := after-before, time.Since(began)
		if again != name || n > 2*int64(took/time.Second)+2 { // a beat without an answer is repeated soon
			t.Errorf("%d beats in %v, of %q and %q", n, took, name, again)
		}
		owners, err := w.checkpoints.Held(t.Context(), "support", sessions)
		if len(owners) != len(sessions) || err != nil {
			t.Errorf("owners %v, %v", owners, err)
		}
		for session, owner := range owners {
			if owner != name {
				t.Errorf("the owner of %s is %q, and %q beats", session, owner, name)
			}
		}

		watching := newWatching(t, nil, w)
		<-time.After(2 * time.Second) // it has looked
		killed, now := make(map[string]time.Time), time.Now()
		for _, session := range sessions {
			killed[session] = now
		}
		p.kill()
		watching.settled(t, killed, sessions...)
		watching.end()
		caller := w.start(t, nil)
		for _, session := range sessions {
			wantTurns(t, caller, session, "hello")
		}
	})
	leaktest.None(t, testenv.Leaks()...)
}

// onlyBeat returns the only process that beats, and its number.
func (w opened) onlyBeat(t *testing.T) (name string, n int64) {
	t.Helper()
	beats, err := w.checkpoints.(lock.Beater).Beat(t.Context(), "")
	if len(beats) != 1 || err != nil {
		t.Fatalf("the beats are %v, want those of one process: %v", beats, err)
	}
	for name, n = range beats {
	}
	return name, n
}

// A mortal is a Memory as one process sees it, until the process dies.
type mortal struct {
	*checkpoint.Memory
	dead atomic.Bool
}

var errDead = errors.New("the process is dead")

func (m *mortal) Beat(ctx context.Context, process string) (map[string]int64, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	return m.Memory.Beat(ctx, process)
}

func (m *mortal) Rest(ctx context.Context, process string) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Memory.Rest(ctx, process)
}

// The same in memory, where beats are counted exactly. Then one of the orchestrators shuts down, and the other goes on
// beating until it has shut down too.
func TestOneBeatInMemory(t *testing.T) {
	for name, dies := range map[string]bool{"dies": true, "shuts down": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { oneBeatInMemory(t, dies) })
		})
	}
}

func oneBeatInMemory(t *testing.T, dies bool) {
	db := new(checkpoint.Memory)
	w := opened{checkpoints: db, snapshots: new(snapshot.Memory), effects: os.DevNull}
	mine, other := w, w
	process := &mortal{Memory: db}
	mine.checkpoints, other.name = process, "refunds"
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var bots []*bot
	for _, name := range []string{"support", "refunds"} {
		mine.name = name
		b := mine.start(t, func(ctx context.Context, _ *turn) error {
			<-ctx.Done()
			return ctx.Err()
		})
		bots = append(bots, b)
		calls.Go(func() { _, _ = b.Execute(ctx, "s", orchestrator.Input{Text: "hello"}, nil) })
		time.Sleep(300 * time.Millisecond)
	}
	time.Sleep(2 * time.Second)
	name, before := w.onlyBeat(t)
	time.Sleep(time.Minute)
	if again, after := w.onlyBeat(t); again != name || after-before != 60 {
		t.Errorf("%d beats in a minute, of %q and %q", after-before, name, again)
	}
	if dies {
		watching := newWatching(t, nil, w, other)
		time.Sleep(5 * time.Second)
		process.dead.Store(true)
		died := time.Now()
		for range bots {
			r := <-watching.runs
			if took := r.at.Sub(died); r.Err != nil || took > 5*time.Second+rest {
				t.Errorf("taken over after %v: %v", took, r.Err)
			}
		}
		watching.end()
		return
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, before = w.onlyBeat(t)
	if err := bots[0].Shutdown(over); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Minute)
	if again, after := w.onlyBeat(t); again != name || after-before != 60 {
		t.Errorf("%d beats in a minute after one has shut down, of %q and %q", after-before, name, again)
	}
	if err := bots[1].Shutdown(over); err != nil {
		t.Error(err)
	}
	if beats, err := db.Beat(t.Context(), ""); len(beats) != 0 || err != nil {
		t.Errorf("after both have shut down the beats are %v: %v", beats, err)
	}
}
