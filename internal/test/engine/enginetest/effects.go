package enginetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// The effects of a bot that buys. The function of each is a point of this name.
const (
	payAsk        = "pay Ask"
	payVerifiable = "pay Verifiable" // by a Key: once for all runs of the session
	payIdempotent = "pay Idempotent"
	payPure       = "pay Pure"
)

// classes are the effects of a bot that buys, in their order.
var classes = []struct {
	name  string
	class ledger.Class
	key   string
}{
	{payAsk, ledger.Ask, ""},
	{payVerifiable, ledger.Verifiable, "order"},
	{payIdempotent, ledger.Idempotent, ""},
	{payPure, ledger.Pure, ""},
}

// buys does the effects of the intent a.
func (p *process) buys(ctx context.Context, t *Turn) error {
	for _, e := range classes {
		pay := func(ctx context.Context, key string) (receipt string, err error) {
			err = p.function(ctx, t.RunID, e.name, func() error {
				receipt = p.pays(ctx, t.RunID, e.name, key)
				return nil
			})
			return receipt, err
		}
		got, err := orchestrator.Once(ctx, t, e.name, pay, &orchestrator.OnceOptions[string]{
			Class: e.class, Key: e.key, Args: e.name, Verify: p.paid, Settles: time.Nanosecond,
		})
		if err != nil {
			return err
		}
		if !strings.HasPrefix(got, "receipt of ") {
			p.accuse(Paid, "%s brought %q", e.name, got)
		}
	}
	return nil
}

// A payment is an effect as the other side knows it.
type payment struct {
	name, run string
	times     int
	risky     bool // it came from a process that had stopped in between

	// again says that it happened although its result was recorded, and its process had not stopped.
	again bool
}

// recorded reports whether the ledger has the result of an effect.
func (w *world) recorded(ctx context.Context, id string) bool {
	for e, err := range w.Ledger.Effects(ctx, ledger.Query{Orchestrator: w.orchestrator}) {
		if err == nil && e.ID == id {
			return e.State == ledger.Completed
		}
	}
	return false
}

// pays is the other side. It recognizes the key of what is Idempotent.
func (p *process) pays(ctx context.Context, run, name, key string) (receipt string) {
	hit, stops := p.suffered(), p.fault.kind.waits() || p.fault.kind == late
	risky := hit == name && stops
	w := p.world
	again := w.recorded(ctx, key) && (hit == "" || !stops)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.payments == nil {
		w.payments = make(map[string]*payment)
	}
	paid := w.payments[key]
	if paid == nil {
		paid = &payment{name: name, run: run}
		w.payments[key] = paid
	}
	if name != payIdempotent || paid.times == 0 {
		paid.times++
	}
	paid.risky, paid.again = paid.risky || risky, paid.again || again
	return "receipt of " + key
}

// paid answers Verify.
func (w *world) paid(_ context.Context, key string) (receipt string, landed bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return "receipt of " + key, w.payments[key] != nil, nil
}

// answers answers for the effects in doubt, as a person does who has asked the other side. It reports whether there was
// one.
func (w *world) answers(ctx context.Context) (some bool) {
	if w.Ledger == nil {
		return false
	}
	for e, err := range w.Ledger.Effects(ctx, ledger.Query{Orchestrator: w.orchestrator, Open: true}) {
		switch {
		case err != nil:
			w.accuse(Healthy, "reading effects: %v", err)
			return false
		case e.State != ledger.Unknown || e.Class != ledger.Ask:
			continue
		}
		a := ledger.Answer{By: "the matrix"}
		receipt, landed, _ := w.paid(ctx, e.ID)
		if a.Landed = landed; landed {
			a.Result = []byte(`"` + receipt + `"`)
		}
		if err := ledger.Resolve(ctx, w.Ledger, e.ID, a); err != nil {
			w.accuse(Healthy, "answering: %v", err)
			return false
		}
		w.note("answered for %s: landed %t", e.Name, landed)
		some = true
	}
	return some
}

// asks gives a process the act, again after each answer of a person.
func (w *world) asks(ctx context.Context, bot *engine, a act) (*Result, error) {
	for {
		res, err := a.do(ctx, w, bot)
		if !errors.Is(err, orchestrator.ErrSuspended) || !w.answers(ctx) {
			return res, err
		}
	}
}

// verifyEffects checks that each effect happened once, as far as its class can promise that, and that none is left as
// if a process were at work on it. settled says which runs have settled.
func (w *world) verifyEffects(ctx context.Context, settled map[string]int) {
	if w.Ledger == nil {
		return
	}
	for e, err := range w.Ledger.Effects(ctx, ledger.Query{Orchestrator: w.orchestrator}) {
		if err != nil {
			w.accuseLocked(Healthy, "reading effects: %v", err)
			return
		}
		if e.State == ledger.Issued {
			w.accuseLocked(Unowned, "%s of run %s is Issued in the end", e.Name, e.RunID)
		}
		if why, ok := w.failed[e.RunID]; ok && e.State.Open() && why != orchestrator.ErrAbandoned.Error() {
			w.accuseLocked(Unowned, "%s of run %s is %s, and its caller was told: %s", e.Name, e.RunID, e.State, why)
		}
		if settled[e.RunID] > 0 && e.State != ledger.Completed {
			w.accuseLocked(Paid, "%s of run %s, which settled, is %s", e.Name, e.RunID, e.State)
		}
		if e.State == ledger.Completed && w.payments[e.ID] == nil {
			w.accuseLocked(Paid, "%s of run %s is Completed, and never happened", e.Name, e.RunID)
		}
	}
	for _, p := range w.payments {
		if p.times > 1 && p.name != payPure && !p.risky {
			w.accuseLocked(Paid, "%s of run %s happened %d times", p.name, p.run, p.times)
		}
		if p.again {
			w.accuseLocked(Paid, "%s of run %s happened again after it was recorded", p.name, p.run)
		}
	}
}

// effects is a ledger as a process sees it.
type effects struct{ *process }

func (s effects) Adopt(ctx context.Context, runID string, f lock.Fence) error {
	return tell(ctx, s.process, "take", func(ctx context.Context) error {
		return s.wrote(s.Ledger.Adopt(ctx, runID, f))
	})
}

func (s effects) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	type answer struct {
		now    ledger.Effect
		issued bool
	}
	a, err := ask(ctx, s.process, "issue", func(ctx context.Context) (a answer, err error) {
		a.now, a.issued, err = s.Ledger.Issue(ctx, e, again)
		if err == nil && a.issued {
			s.issued(e)
		}
		return a, s.wrote(err)
	})
	return a.now, a.issued, err
}

// issued checks that the run of an effect was not told as over.
func (w *world) issued(e ledger.Effect) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if why, ok := w.failed[e.RunID]; ok {
		w.accuseLocked(Unowned, "%s is issued for run %s after its caller was told: %s", e.Name, e.RunID, why)
	}
}

func (s effects) Finish(ctx context.Context, id string, attempt int, o ledger.Outcome) (ledger.Effect, error) {
	return ask(ctx, s.process, "finish", func(ctx context.Context) (ledger.Effect, error) {
		now, err := s.Ledger.Finish(ctx, id, attempt, o)
		return now, s.wrote(err)
	})
}

func (s effects) Record(ctx context.Context, e ledger.Effect) (ledger.Effect, error) {
	return ask(ctx, s.process, "record", func(ctx context.Context) (ledger.Effect, error) {
		now, err := s.Ledger.Record(ctx, e)
		return now, s.wrote(err)
	})
}

func (s effects) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return func(yield func(ledger.Effect, error) bool) {
		if err := s.read(ctx, "effects"); err != nil {
			yield(ledger.Effect{}, err)
			return
		}
		s.Ledger.Effects(ctx, q)(yield)
	}
}

func (s effects) Prune(context.Context, time.Time) (int, error) {
	return 0, fmt.Errorf("Prune: %w", errors.ErrUnsupported)
}
