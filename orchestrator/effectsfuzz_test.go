package orchestrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
)

// effectsSeed names the variable with the seed of one play.
const effectsSeed = "HOLDFAST_EFFECTS_SEED"

// An effectReport is the outcome of a play.
type effectReport struct {
	seed          uint64
	story, broken []string
	payments      int
}

func (r *effectReport) String() string {
	return fmt.Sprintf("seed %d\n%s\n%s\nplay it again with %s=%d", r.seed, strings.Join(r.story, "\n"),
		strings.Join(r.broken, "\n"), effectsSeed, r.seed)
}

// broke reports whether a play broke one of some laws.
func (r *effectReport) broke(laws ...string) bool {
	for _, broken := range r.broken {
		for _, law := range laws {
			if strings.HasPrefix(broken, law) {
				return true
			}
		}
	}
	return false
}

// playEffects plays the plan of a seed.
func playEffects(t *testing.T, seed uint64, c effectCures) *effectReport {
	dog := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("the play of seed %d has not ended", seed)) })
	defer dog.Stop()
	r := &effectReport{seed: seed}
	defer func() {
		if v := recover(); v != nil {
			panic(fmt.Sprintf("seed %d: %v\n%s", seed, v, strings.Join(r.story, "\n")))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := newEffectWorld(t, newEffectPlan(seed), c)
		w.play()
		w.mu.Lock() // a function that was given up may have told something last
		defer w.mu.Unlock()
		r.story, r.broken, r.payments = w.story, w.broken, len(w.book)
	})
	return r
}

// A bot that pays is deployed, killed, retried, abandoned and answered at random, by seed, before a vendor that counts.
// An order is paid once, and what callers hear is true.
func TestEffectsFuzz(t *testing.T) {
	if fixed := os.Getenv(effectsSeed); fixed != "" {
		seed, err := strconv.ParseUint(fixed, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		r := playEffects(t, seed, effectCures{})
		t.Log(r)
		if len(r.broken) > 0 {
			t.Fail()
		}
		return
	}
	span := 2 * time.Second
	if soak() {
		span = time.Minute
	}
	until, base := time.Now().Add(span), uint64(rand.Uint32())
	var mu sync.Mutex
	plays, payments := 0, 0
	t.Run("workers", func(t *testing.T) {
		workers := runtime.GOMAXPROCS(0)
		for n := range workers {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				for seed := base + uint64(n); time.Now().Before(until) && !t.Failed(); seed += uint64(workers) {
					r := playEffects(t, seed, effectCures{})
					if len(r.broken) > 0 {
						t.Error(r)
					}
					mu.Lock()
					plays, payments = plays+1, payments+r.payments
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d plays from seed %d, %d payments", plays, base, payments)
}

// mostEffectSeeds is the number of plays in which a cure that is taken out is missed.
const mostEffectSeeds = 4000

// The fuzz finds each of these faults of the engine, once its cure is taken out by a wrapper.
func TestEffectsFuzzConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		laws  []string
		cures effectCures
	}{
		"a decision is durable before an effect": {[]string{lawOnce}, effectCures{
			snapshots: func(s snapshot.Store) snapshot.Store { return undecided{s} },
		}},
		"NotDone is about one attempt": {[]string{lawOnce, lawTold}, effectCures{
			ledger: func(l ledger.Ledger) ledger.Ledger { return believesLast{l} },
		}},
		"a parent is in doubt with its child": {[]string{lawOnce, lawTold}, effectCures{strips: true}},
		"not landed counts when it is old":    {[]string{lawOnce}, effectCures{settles: 1}},
		"what is left under way is in doubt": {[]string{lawTold}, effectCures{
			ledger: func(l ledger.Ledger) ledger.Ledger { return forgetsLeft{l} },
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(mostEffectSeeds) {
				broke := playEffects(t, seed, c.cures).broke(c.laws...)
				if broke && len(playEffects(t, seed, effectCures{}).broken) == 0 {
					t.Logf("convicted after %d plays, by seed %d", seed+1, seed)
					return
				}
			}
			t.Errorf("not convicted by %d plays", mostEffectSeeds)
		})
	}
}

// undecided saves no decision.
type undecided struct{ snapshot.Store }

func (s undecided) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	r.Payload = withoutNext(r.Payload)
	return s.Store.Begin(ctx, r)
}

func (s undecided) Save(ctx context.Context, r snapshot.Run) error {
	r.Payload = withoutNext(r.Payload)
	return s.Store.Save(ctx, r)
}

func withoutNext(payload json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(payload, &members) != nil || members["next"] == nil {
		return payload
	}
	delete(members, "next")
	less, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return less
}

// believesLast makes an effect Failed if its last attempt has failed, whatever the attempts before have done.
type believesLast struct{ ledger.Ledger }

func (l believesLast) Finish(ctx context.Context, id string, attempt int, o ledger.Outcome) (ledger.Effect, error) {
	now, err := l.Ledger.Finish(ctx, id, attempt, o)
	if err == nil && o.State == ledger.Failed && o.By == "" && now.State == ledger.Unknown && now.Attempts == attempt {
		o.By = "the last attempt"
		return l.Ledger.Finish(ctx, id, attempt, o)
	}
	return now, err
}

// forgetsLeft says that an effect has failed which a function has left under way.
type forgetsLeft struct{ ledger.Ledger }

func (l forgetsLeft) Finish(ctx context.Context, id string, attempt int, o ledger.Outcome) (ledger.Effect, error) {
	now, err := l.Ledger.Finish(ctx, id, attempt, o)
	if o.Error == "the turn has ended, and the effect was still under way" {
		now.State = ledger.Failed
	}
	return now, err
}
