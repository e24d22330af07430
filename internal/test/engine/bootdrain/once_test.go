package bootdrain_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// buy is the job of a process that buys in several sessions at once. Each session has an effect of another kind: see
// purchases.
const buy = "buy"

// The points of Once. At such a point the process is killed, or is stopped.
const (
	issueBefore  = "before Issue"
	issueAfter   = "after Issue"
	payBefore    = "before paying"
	payAfter     = "after paying"
	finishBefore = "before the outcome is recorded" // of Pure: before Record
	finishAfter  = "after the outcome is recorded"
	settling     = "before the turn settles"
)

var points = []string{issueBefore, issueAfter, payBefore, payAfter, finishBefore, finishAfter, settling}

// A purchase is one kind of effect.
type purchase struct {
	class ledger.Class
	keyed bool
}

// purchases are the kinds, by the names of their sessions.
var purchases = map[string]purchase{
	"pure": {ledger.Pure, false}, "pure by key": {ledger.Pure, true},
	"idempotent": {ledger.Idempotent, false}, "idempotent by key": {ledger.Idempotent, true},
	"verifiable": {ledger.Verifiable, false}, "verifiable by key": {ledger.Verifiable, true},
	"ask": {ledger.Ask, false}, "ask by key": {ledger.Ask, true},
}

// reaches reports whether an effect of this class comes to a point.
func (p purchase) reaches(point string) bool {
	return p.class != ledger.Pure || point != issueBefore && point != issueAfter
}

// A passage is called at each point that an effect of a session passes.
type passage func(session, point string)

// buyer returns a bot that buys from v, in the way that its session names. Args name the session, for the ledger.
func (w opened) buyer(v vendor, mode string, at passage) (*bot, error) {
	var mu sync.Mutex
	session := make(map[string]string) // by effect
	l := faulttest.Ledger(w.ledger, func(
		ctx context.Context, c faulttest.Call, next func(context.Context) error,
	) error {
		var before, after string
		in := c.Session
		switch c.Method {
		case "Issue":
			before, after = issueBefore, issueAfter
		case "Record":
			before, after = finishBefore, finishAfter
		case "Finish":
			before, after = finishBefore, finishAfter
			mu.Lock()
			in = session[c.Effect]
			mu.Unlock()
		default:
			return next(ctx)
		}
		at(in, before)
		err := next(ctx)
		at(in, after)
		return err
	})
	return orchestrator.New(orchestrator.Definition[talk]{
		Name: "support", First: "work",
		Intents: orchestrator.Intents[talk]{"work": {Run: func(ctx context.Context, t *turn) error {
			p := purchases[t.Session]
			o := &orchestrator.OnceOptions[string]{Class: p.class, Args: t.Session}
			if p.keyed {
				o.Key = "order of " + t.Session
			}
			o.Verify, o.Settles = v.find, time.Nanosecond // the vendor has what a killed process has sent
			receipt, err := orchestrator.Once(ctx, t, "pay", func(ctx context.Context, key string) (string, error) {
				mu.Lock()
				session[key] = t.Session
				mu.Unlock()
				at(t.Session, payBefore)
				// The request may be on its way: no end of ctx stops it.
				receipt, err := v.pay(context.WithoutCancel(ctx), key, mode, p.class == ledger.Idempotent)
				at(t.Session, payAfter)
				return receipt, err
			}, o)
			if err != nil {
				return err
			}
			t.State.Said = append(t.State.Said, receipt)
			at(t.Session, settling)
			return nil
		}}},
	}, w.checkpoints, &orchestrator.Options{Snapshots: w.snapshots, Ledger: l, Limits: w.limits, Logger: quiet})
}

// buy buys in all sessions of the job. When all of them are at the point DieIn, the process is killed, or it waits to
// be told to go on.
func (k *worker) buy(ctx context.Context, w opened) error {
	var arrived, turns sync.WaitGroup
	arrived.Add(len(k.Sessions))
	goOn := make(chan struct{})
	var once sync.Map
	bot, err := w.buyer(vendor(k.Text), k.Body, func(session, point string) {
		if point != k.DieIn {
			return
		}
		if _, again := once.LoadOrStore(session, true); !again {
			arrived.Done()
			<-goOn
		}
	})
	if err != nil {
		return err
	}
	for _, session := range k.Sessions {
		turns.Go(func() { _, _ = bot.Execute(ctx, session, orchestrator.Input{Text: "buy"}, nil) })
	}
	arrived.Wait()
	fmt.Println(inFlight)
	<-k.goOn
	close(goOn)
	turns.Wait()
	fmt.Println(left)
	return nil
}

// ledgerSites are the sites that have a ledger. Redis has none.
func ledgerSites(t *testing.T, test func(*testing.T, site)) {
	t.Helper()
	sites(t, func(t *testing.T, s site, w opened) {
		if w.ledger != nil {
			test(t, s)
		}
	})
	leaktest.None(t, testenv.Leaks()...)
}

// sessionsAt returns the sessions whose effects come to a point.
func sessionsAt(point string) []string {
	all := slices.Sorted(maps.Keys(purchases))
	return slices.DeleteFunc(all, func(s string) bool { return !purchases[s].reaches(point) })
}

// answerAll answers for what is in doubt, as a person does who asks the vendor.
func (w opened) answerAll(t *testing.T, v vendor) (answered int) {
	t.Helper()
	for e, err := range w.ledger.Effects(t.Context(), ledger.Query{Open: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.State != ledger.Unknown || e.Class != ledger.Ask {
			continue
		}
		receipt, landed, err := v.find(t.Context(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		a := ledger.Answer{Landed: landed, By: "test"}
		if landed {
			a.Result = []byte(`"` + receipt + `"`)
		}
		if err := ledger.Resolve(t.Context(), w.ledger, e.ID, a); err != nil {
			t.Fatal(err)
		}
		answered++
	}
	return answered
}

// finishBuying drains with a second process, and answers what is in doubt, until no run is in flight. It returns how
// many effects a person was asked about.
func (w opened) finishBuying(t *testing.T, v vendor, mode string) (*bot, int) {
	t.Helper()
	b, err := w.buyer(v, mode, func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	finishAll(t, b, func() { asked += w.answerAll(t, v) })
	return b, asked
}

// finishAll drains, and answers, until no run is in flight.
func finishAll(t *testing.T, b *bot, answer func()) {
	t.Helper()
	for ctx := patience(t); ; {
		if got, err := passes(ctx, b); err != nil {
			t.Fatal(got, err)
		}
		answer()
		left := 0
		for _, err := range b.Runs(ctx) {
			if left++; err != nil {
				t.Fatal(err)
			}
		}
		if left == 0 {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond): // a lease may have to end
		case <-ctx.Done():
			t.Fatalf("%d runs are left", left)
		}
	}
}

// paidBy returns how often the effect of a session was paid. Its receipt must be that of its effect.
func (w opened) paidBy(t *testing.T, b *bot, session string, counts map[string]int) int {
	t.Helper()
	for res, err := range b.Turns(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range w.ledger.Effects(t.Context(), ledger.Query{Session: session}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.State != ledger.Completed || !slices.Equal(res.State.Said, []string{"receipt of " + e.ID}) {
				t.Errorf("%s: %s is %s, and the turn says %q", session, e.ID, e.State, res.State.Said)
			}
			return counts[e.ID]
		}
	}
	t.Errorf("%s has not settled", session)
	return 0
}

// A process is killed at each point of Once, with an effect of each class, with and without Key. A second process
// finishes the turns. Idempotent and Verifiable have paid once. So has Ask, after a person has answered. K42, K43, K45.
func TestOnceKilled(t *testing.T) {
	ledgerSites(t, func(t *testing.T, s site) {
		for _, point := range points {
			t.Run(point, func(t *testing.T) {
				s := s.anew(t)
				w, v := openSite(t, s), newVendor(t)
				sessions := sessionsAt(point)
				p := job{Do: buy, Site: s, DieIn: point, Sessions: sessions, Text: string(v)}.start(t)
				p.hear(inFlight)
				p.kill()
				w.free(t, sessions...)
				b, asked := w.finishBuying(t, v, plainly)
				// Nothing tells an effect that was issued from one that has happened.
				want := 0
				if slices.Contains([]string{issueAfter, payBefore, payAfter, finishBefore}, point) {
					want = 2
				}
				if asked != want {
					t.Errorf("%d effects of Ask in doubt, want %d", asked, want)
				}
				wantRuns(t, b, 0)
				counts := v.counts(t)
				for _, session := range sessions {
					n := w.paidBy(t, b, session, counts)
					if pure := purchases[session].class == ledger.Pure; n != 1 && (!pure || n < 1 || n > 2) {
						t.Errorf("%s: paid %d times", session, n)
					}
				}
			})
		}
	})
}

// The process is stopped past the end of its lease, and goes on when a second process has finished its turns. Only what
// the vendor recognizes by its key is paid once at each point. What can be verified, and what a person answers for, is
// paid twice if the process stood between its look at the deadline and the vendor: docs/guarantees.md names that
// window. Each site has a part of the points.
func TestOnceStopped(t *testing.T) {
	ledgerSites(t, func(t *testing.T, s site) {
		tests := make(map[string]func(*testing.T))
		two := make(chan struct{}, 2) // at once: more would be too slow for their leases
		for i, point := range points {
			if !s.takes(i) {
				continue
			}
			tests[point] = func(t *testing.T) {
				two <- struct{}{}
				defer func() { <-two }()
				s := s.anew(t)
				s.TTL = shortLease
				w, v := openSite(t, s), newVendor(t)
				sessions := sessionsAt(point)
				p := job{Do: buy, Site: s, DieIn: point, Sessions: sessions, Text: string(v)}.start(t)
				p.hear(inFlight)
				s.stop(t, p)
				b, _ := w.finishBuying(t, v, plainly)
				signal(t, p, sigCont)
				p.goOn()
				p.hear(left)
				p.exit()
				wantRuns(t, b, 0)
				counts := v.counts(t)
				for _, session := range sessions {
					want := 1
					class := purchases[session].class
					if point == payBefore && (class == ledger.Verifiable || class == ledger.Ask) {
						want = 2
					}
					if n := w.paidBy(t, b, session, counts); n != want && class != ledger.Pure {
						t.Errorf("%s: paid %d times, want %d", session, n, want)
					}
				}
			}
		}
		together(t, tests)
	})
}

// shortLease ends while the process is stopped. It is long enough for a busy machine.
const shortLease = 5 * time.Second

// stop stops a process between two writes. As the writer of a file it would keep all others from it.
func (s site) stop(t *testing.T, p *child) {
	t.Helper()
	for signal(t, p, sigStop); s.SQLite != "" && !s.writable(t); signal(t, p, sigStop) {
		signal(t, p, sigCont)
		<-time.After(10 * time.Millisecond)
	}
}

// writable reports whether a file has no writer.
func (s site) writable(t *testing.T) bool {
	t.Helper()
	db, err := sql.Open("sqlite", s.SQLite)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err = db.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		return false
	}
	if _, err = db.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	return true
}

func signal(t *testing.T, p *child, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// The vendor fails before or after it has paid, loses its reply, or is slow. No process dies.
func TestOnceVendorFails(t *testing.T) {
	ledgerSites(t, func(t *testing.T, s site) {
		for _, mode := range []string{refusesFirst, failsAfter, hangsUp, slowly} {
			t.Run(mode, func(t *testing.T) {
				s := s.anew(t)
				w, v := openSite(t, s), newVendor(t)
				b, err := w.buyer(v, mode, func(string, string) {})
				if err != nil {
					t.Fatal(err)
				}
				for _, session := range sessionsAt(settling) {
					_, err := b.Execute(t.Context(), session, orchestrator.Input{Text: "buy"}, nil)
					class := purchases[session].class
					d, inDoubt := errors.AsType[*orchestrator.InDoubtError](err)
					if (class == ledger.Pure) == inDoubt || inDoubt && d.Ask != (class == ledger.Ask) || err == nil {
						t.Errorf("%s: %v", session, err)
					}
				}
				w.answerAll(t, v)
				for _, session := range sessionsAt(settling) {
					if purchases[session].class == ledger.Pure {
						continue
					}
					if _, err := b.Resume(t.Context(), session, nil); err != nil {
						t.Errorf("%s: %v", session, err)
					}
				}
				wantRuns(t, b, 0)
				counts := v.counts(t)
				for _, session := range sessionsAt(settling) {
					if purchases[session].class == ledger.Pure {
						continue
					}
					if n := w.paidBy(t, b, session, counts); n != 1 {
						t.Errorf("%s: paid %d times", session, n)
					}
				}
			})
		}
	})
}

// anew returns the site with empty stores.
func (s site) anew(t *testing.T) site {
	t.Helper()
	var fresh site
	switch {
	case s.SQLite != "":
		fresh = onSQLite(t)
	case s.Redis != "":
		fresh = onBoth(t)
	default:
		fresh = onPostgres(t)
	}
	fresh.Effects = s.Effects
	return fresh
}
