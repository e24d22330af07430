package bottest

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

// A Vendor is the other side: it pays, and counts what it has paid.
type Vendor struct {
	Honours bool // it recognizes keys

	mu   sync.Mutex // protects following fields
	Paid []string   // what for, in order
	Keys map[string]string
	Fail []error // of the next payments, after they landed; nil: none
}

// Pay pays for what, and returns a receipt.
func (v *Vendor) Pay(key, what string) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if receipt, ok := v.Keys[key]; ok && v.Honours {
		return receipt, nil
	}
	v.Paid = append(v.Paid, what)
	receipt := fmt.Sprintf("receipt %d for %s", len(v.Paid), what)
	if v.Keys == nil {
		v.Keys = make(map[string]string)
	}
	v.Keys[key] = receipt
	if len(v.Fail) > 0 {
		err := v.Fail[0]
		if v.Fail = v.Fail[1:]; err != nil {
			return "", err
		}
	}
	return receipt, nil
}

// Find answers Verify.
func (v *Vendor) Find(_ context.Context, key string) (string, bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	receipt, ok := v.Keys[key]
	return receipt, ok, nil
}

// Count returns how often the vendor was paid.
func (v *Vendor) Count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.Paid)
}

// Once is Once of a payment.
func (v *Vendor) Once(
	ctx context.Context, t *Turn, what string, o orchestrator.OnceOptions[string],
) (string, error) {
	if o.Class == ledger.Verifiable {
		o.Verify = v.Find
		o.Settles = cmp.Or(o.Settles, time.Nanosecond) // it knows at once
	}
	return orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
		return v.Pay(key, what)
	}, &o)
}

// A Shop is a world with a ledger and a vendor.
type Shop struct {
	World
	Ledger ledger.Ledger
	Vendor *Vendor
}

// NewShop returns an empty shop in memory.
func NewShop() Shop { return Shop{NewWorld(), new(ledger.Memory), new(Vendor)} }

// Start is one process of a bot with the ledger of the shop.
func (s Shop) Start(t testing.TB, d Def, o Options) *Bot {
	t.Helper()
	if o.Ledger == nil {
		o.Ledger = s.Ledger
	}
	return s.World.Start(t, d, o)
}

// Single is a bot with one intent, "work".
func Single(run func(context.Context, *Turn) error) Def {
	return Def{Name: "shop", Intents: Intents{"work": {Run: run}}}
}

// Crash runs a turn in a process that dies while the turn is under way, and frees its session.
func (s Shop) Crash(t testing.TB, d func(die func()) Def, in Input) {
	t.Helper()
	grave := &Grave{World: s.World}
	ends := grave.Ends()
	l := faulttest.Ledger(s.Ledger, faulttest.On(
		func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
			if grave.Dead.Load() {
				return lock.ErrFenced
			}
			return next(ctx)
		}, "Issue", "Finish", "Record", "AdoptEffects"))
	bot, err := orchestrator.New(d(grave.Die), ends.Checkpoints,
		&Options{Snapshots: ends.Snapshots, Ledger: l, Logger: Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bot.Execute(t.Context(), "s", in, nil); err == nil {
		t.Fatal("the process did not die")
	}
	s.FreeUp(t, bot.Name())
}

// Effects returns the effects of the ledger.
func (s Shop) Effects(t testing.TB, q ledger.Query) (all []ledger.Effect) {
	t.Helper()
	for e, err := range s.Ledger.Effects(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// Effect returns the one effect of the ledger.
func (s Shop) Effect(t testing.TB) ledger.Effect {
	t.Helper()
	all := s.Effects(t, ledger.Query{})
	if len(all) != 1 {
		t.Fatalf("%d effects, want one: %+v", len(all), all)
	}
	return all[0]
}

// WantDoubt checks that a turn stopped for effects in doubt.
func WantDoubt(t testing.TB, err error, ask bool) {
	t.Helper()
	_ = TheDoubt(t, err, ask)
}

// TheDoubt is wantDoubt, and returns the error.
func TheDoubt(t testing.TB, err error, ask bool) *orchestrator.InDoubtError {
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

// Refunds pays for the text of the input, and notes the receipt. after comes between the payment and its record.
func (s Shop) Refunds(o orchestrator.OnceOptions[string], after func()) func(context.Context, *Turn) error {
	return func(ctx context.Context, t *Turn) error {
		receipt, err := orchestrator.Once(ctx, t, "refund", func(_ context.Context, key string) (string, error) {
			defer after()
			return s.Vendor.Pay(key, t.Input.Text)
		}, &o)
		t.State.A = receipt
		return err
	}
}

// NobodyDies is for bots that can crash, and need not.
func NobodyDies() {}
