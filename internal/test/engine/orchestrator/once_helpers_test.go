package orchestrator_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A vendor is the other side: it pays, and counts what it has paid.
type vendor struct {
	honours bool // it recognizes keys

	mu   sync.Mutex // protects following fields
	paid []string   // what for, in order
	keys map[string]string
	fail []error // of the next payments, after they landed; nil: none
}

var (
	errTimeout  = errors.New("gateway timeout")
	errDeclined = errors.New("card declined")
)

// pay pays for what, and returns a receipt.
func (v *vendor) pay(key, what string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if receipt, ok := v.keys[key]; ok && v.honours {
		return receipt, nil
	}
	v.paid = append(v.paid, what)
	receipt := fmt.Sprintf("receipt %d for %s", len(v.paid), what)
	if v.keys == nil {
		v.keys = make(map[string]string)
	}
	v.keys[key] = receipt
	if len(v.fail) > 0 {
		err := v.fail[0]
		if v.fail = v.fail[1:]; err != nil {
			return "", err
		}
	}
	return receipt, nil
}

// find answers Verify.
func (v *vendor) find(_ context.Context, key string) (string, bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	receipt, ok := v.keys[key]
	return receipt, ok, nil
}

func (v *vendor) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.paid)
}

// once is Once of a payment.
func (v *vendor) once(
	ctx context.Context, t *Turn, what string, o orchestrator.OnceOptions[string],
) (string, error) {
	if o.Class == ledger.Verifiable {
		o.Verify = v.find
		o.Settles = cmp.Or(o.Settles, time.Nanosecond) // it knows at once
	}
	return orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
		return v.pay(key, what)
	}, &o)
}

// A shop is a world with a ledger and a vendor.
type shop struct {
	world
	ledger ledger.Ledger
	vendor *vendor
}

func newShop() shop { return shop{newWorld(), new(ledger.Memory), new(vendor)} }

func (s shop) start(t testing.TB, d Def, o Options) *Bot {
	t.Helper()
	if o.Ledger == nil {
		o.Ledger = s.ledger
	}
	return s.world.start(t, d, o)
}

// single is a bot with one intent, "work".
func single(run func(context.Context, *Turn) error) Def {
	return Def{Name: "shop", Intents: Intents{"work": {Run: run}}}
}

// crash runs a turn in a process that dies while the turn is under way, and frees its session.
func (s shop) crash(t testing.TB, d func(die func()) Def, in Input) {
	t.Helper()
	grave := &grave{world: s.world}
	ends := grave.ends()
	l := faulttest.Ledger(s.ledger, faulttest.On(
		func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
			if grave.dead.Load() {
				return lock.ErrFenced
			}
			return next(ctx)
		}, "Issue", "Finish", "Record", "AdoptEffects"))
	bot, err := orchestrator.New(d(grave.die), ends.checkpoints,
		&Options{Snapshots: ends.snapshots, Ledger: l, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bot.Execute(t.Context(), "s", in, nil); err == nil {
		t.Fatal("the process did not die")
	}
	s.freeUp(t, bot.Name())
}

// effects returns the effects of the ledger.
func (s shop) effects(t testing.TB, q ledger.Query) (all []ledger.Effect) {
	t.Helper()
	for e, err := range s.ledger.Effects(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// effect returns the one effect of the ledger.
func (s shop) effect(t testing.TB) ledger.Effect {
	t.Helper()
	all := s.effects(t, ledger.Query{})
	if len(all) != 1 {
		t.Fatalf("%d effects, want one: %+v", len(all), all)
	}
	return all[0]
}

// wantDoubt checks that a turn stopped for effects in doubt.
func wantDoubt(t testing.TB, err error, ask bool) {
	t.Helper()
	_ = theDoubt(t, err, ask)
}

// theDoubt is wantDoubt, and returns the error.
func theDoubt(t testing.TB, err error, ask bool) *orchestrator.InDoubtError {
	t.Helper()
	d, ok := errors.AsType[*orchestrator.InDoubtError](err)
	if !ok || d.Ask != ask || len(d.Effects) == 0 || !errors.Is(err, ledger.ErrInDoubt) {
		t.Fatalf("got %v, want an *InDoubtError with Ask %t", err, ask)
	}
	wait := orchestrator.ErrIndeterminate
	if ask {
		wait = orchestrator.ErrSuspended
	}
	if !errors.Is(err, wait) {
		t.Fatalf("got %v, want %v", err, wait)
	}
	return d
}
