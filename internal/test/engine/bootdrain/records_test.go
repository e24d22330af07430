package bootdrain_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

// ask is the job of a process that asks a model in several sessions at once. Each session asks in another way: see
// askings. The process is killed at the point DieIn, or at any time.
const ask = "ask"

// anyTime is no point: the process is killed some time after its last turns have begun.
const anyTime = "any time"

// recordPoints are the points that an effect of Pure passes.
var recordPoints = []string{payBefore, payAfter, finishBefore, finishAfter, settling}

// What has failed before the process is killed, and who has decided to try again.
const (
	plain   = "first try"
	retried = "tried again by the intent"
	again   = "sent again"
	drained = "failed under a drain"
)

// An asking is one way to ask a model.
type asking struct {
	story      string
	http, sent bool // by oncehttp; with a request id
}

// askings are the ways, by the begin of the names of their sessions.
var askings = func() map[string]asking {
	all := make(map[string]asking)
	for _, story := range []string{plain, retried, again, drained} {
		for _, byHTTP := range []bool{false, true} {
			for _, sent := range []bool{false, true} {
				if q := (asking{story, byHTTP, sent}); sent || story != again {
					all[fmt.Sprintf("%s, http %t, id %t", story, byHTTP, sent)] = q
				}
			}
		}
	}
	return all
}()

// askingOf returns the way of a session. After a slash, its name has the number of the kill.
func askingOf(session string) asking {
	way, _, _ := strings.Cut(session, "/")
	return askings[way]
}

// decisions returns how often the bot decides to ask: each decision has a record of its own.
func (q asking) decisions() int {
	if q.story == plain {
		return 1
	}
	return 2
}

func (q asking) input(session string) orchestrator.Input {
	in := orchestrator.Input{Text: "ask"}
	if q.sent {
		in.RequestID = "id of " + session
	}
	return in
}

var errNonsense = errors.New("the model talks nonsense")

// An asker is a process of a bot that asks a model.
type asker struct {
	*bot
	by      string // who asks, as the model is told
	at      passage
	vendor  vendor
	client  *http.Client
	failing atomic.Bool // the model talks nonsense in the sessions that are to fail
	leaving sync.Map    // the callers that are to go away, by session
	last    sync.Map    // the sessions that are in their last attempt
}

// asker returns a bot that asks v.
func (w opened) asker(v vendor, by string, at passage) (*asker, error) {
	a := &asker{by: by, vendor: v}
	a.at = func(session, point string) {
		if _, last := a.last.Load(session); last {
			at(session, point)
		}
	}
	a.client = &http.Client{Transport: oncehttp.New(nil).Transport(a)}
	l := faulttest.Ledger(w.ledger, faulttest.On(
		func(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
			a.at(c.Session, finishBefore)
			err := next(ctx)
			a.at(c.Session, finishAfter)
			return err
		}, "Record"))
	limits := w.limits
	limits.Attempts, limits.LockWait = 10, 2*time.Second // no run is parked
	var err error
	a.bot, err = orchestrator.New(orchestrator.Definition[talk]{
		Name: "support", First: "work",
		Intents: orchestrator.Intents[talk]{"work": {Run: a.work, Retry: retry.Policy{Attempts: 2}}},
	}, w.checkpoints, &orchestrator.Options{Snapshots: w.snapshots, Ledger: l, Limits: limits, Logger: quiet})
	return a, err
}

// work asks, and says what is wrong with the reply.
func (a *asker) work(ctx context.Context, t *turn) error {
	if leave, ok := a.leaving.LoadAndDelete(t.Session); ok {
		leave.(context.CancelFunc)()
		return ctx.Err()
	}
	q := askingOf(t.Session)
	fails := q.story == retried && t.Attempt == 1
	if !fails && !a.failing.Load() {
		a.last.Store(t.Session, true)
	}
	reply, err := a.ask(ctx, t, q)
	switch {
	case err != nil:
		return err
	case fails:
		return errNonsense
	case a.failing.Load():
		return retry.Permanent(errNonsense)
	}
	t.State.Said = append(t.State.Said, reply)
	a.at(t.Session, settling)
	return nil
}

func (a *asker) ask(ctx context.Context, t *turn, q asking) (string, error) {
	if q.http {
		return a.send(oncehttp.With(ctx, t, "model"), a.client, t.Session)
	}
	return orchestrator.Once(ctx, t, "model", func(ctx context.Context, _ string) (string, error) {
		return a.send(ctx, &http.Client{Transport: a}, t.Session)
	}, &orchestrator.OnceOptions[string]{Class: ledger.Pure})
}

func (a *asker) send(ctx context.Context, c *http.Client, session string) (string, error) {
	to := string(a.vendor) + "/ask?session=" + url.QueryEscape(session)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err
}

// RoundTrip makes an asker the connection to its model.
func (a *asker) RoundTrip(r *http.Request) (*http.Response, error) {
	session := r.URL.Query().Get("session")
	a.at(session, payBefore)
	r = r.Clone(r.Context())
	r.Header.Set("From", a.by)
	res, err := client().Transport.RoundTrip(r)
	a.at(session, payAfter)
	return res, err
}

// failFirst plays what comes before the last turn of a session.
func (a *asker) failFirst(ctx context.Context, session string) (err error) {
	switch q := askingOf(session); q.story {
	case again:
		_, err = a.Execute(ctx, session, q.input(session), nil)
	case drained:
		called, leave := context.WithCancel(ctx)
		a.leaving.Store(session, leave)
		if _, err = a.Execute(called, session, q.input(session), nil); !errors.Is(err, orchestrator.ErrIndeterminate) {
			return fmt.Errorf("%s: the caller has not left: %w", session, err)
		}
		_, err = a.Recover(ctx, session)
	default:
		return nil
	}
	if !errors.Is(err, errNonsense) {
		return fmt.Errorf("%s: it has not failed: %w", session, err)
	}
	return nil
}

// goOn makes the last turn of a session, or goes on with it. Without a caller a drain does it, if the run is due.
func (a *asker) goOn(ctx context.Context, session string, caller bool) (err error) {
	in := askingOf(session).input(session)
	if !caller {
		outcome, err := a.Recover(ctx, session)
		if err != nil || outcome == "settled" {
			return err
		}
	}
	if in.RequestID != "" {
		_, err = a.Execute(ctx, session, in, nil)
		return err
	}
	if _, err = a.Resume(ctx, session, nil); !errors.Is(err, orchestrator.ErrNothingToResume) {
		return err
	}
	for _, err := range a.Turns(ctx, session) {
		return err
	}
	_, err = a.Execute(ctx, session, in, nil) // it had not begun
	return err
}

// ask asks in all sessions of the job. It tells when all of them are at the point DieIn, or when they begin.
func (k *worker) ask(ctx context.Context, w opened) error {
	var arrived, turns sync.WaitGroup
	never := make(chan struct{})
	var once sync.Map
	a, err := w.asker(vendor(k.Text), "the process that dies", func(session, point string) {
		if point != k.DieIn {
			return
		}
		if _, twice := once.LoadOrStore(session, true); !twice {
			arrived.Done()
			<-never
		}
	})
	if err != nil {
		return err
	}
	a.failing.Store(true)
	failed := make(chan error, len(k.Sessions))
	for _, session := range k.Sessions {
		go func() { failed <- a.failFirst(ctx, session) }()
	}
	for range k.Sessions {
		if err := <-failed; err != nil {
			return err
		}
	}
	a.failing.Store(false)
	if k.DieIn != anyTime {
		arrived.Add(len(k.Sessions))
	}
	for _, session := range k.Sessions {
		turns.Go(func() { _ = a.goOn(ctx, session, true) })
	}
	arrived.Wait()
	fmt.Println(inFlight)
	turns.Wait()
	<-never
	return nil
}

// A model is asked by sessions. It numbers what it says, and repeats who has asked.
func (s *shop) ask(w http.ResponseWriter, r *http.Request) {
	session, by := r.FormValue("session"), r.Header.Get("From")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[session]++
	s.paid[by+": "+session]++
	fmt.Fprintf(w, "reply %d to %s", s.calls[session], by)
}

// records returns the recorded replies of a session, by effect.
func (w opened) records(t *testing.T, session string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for e, err := range w.ledger.Effects(t.Context(), ledger.Query{Session: session}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.State != ledger.Completed || !replyText.Match(e.Result) {
			t.Errorf("%s: %+v", session, e)
			continue
		}
		all[e.ID] = string(replyText.Find(e.Result))
	}
	return all
}

var replyText = regexp.MustCompile(`reply (\d+) to [a-z ]+`)

// newest returns the reply with the highest number.
func newest(replies iter.Seq[string]) string {
	return slices.MaxFunc(slices.Collect(replies), func(a, b string) int {
		return number(a) - number(b)
	})
}

func number(reply string) int {
	n, _ := strconv.Atoi(replyText.FindStringSubmatch(reply)[1])
	return n
}

// survivor is who asks after the kill.
const survivor = "the process that lives"

// A hunt kills processes that ask a model, and looks for records that were lost.
type hunt struct {
	w      opened
	vendor vendor
	alive  *asker
	delay  time.Duration // the longest, if the process dies at any time

	kills, found, asked, over int
}

func (w opened) hunt(t *testing.T, v vendor) *hunt {
	t.Helper()
	alive, err := w.asker(v, survivor, func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	return &hunt{w: w, vendor: v, alive: alive, delay: 100 * time.Millisecond}
}

// kill kills a process at a point, and goes on with its sessions. It returns what is wrong with them.
func (h *hunt) kill(t *testing.T, s site, point string) (wrong []string) {
	t.Helper()
	var sessions []string
	for way := range askings {
		sessions = append(sessions, fmt.Sprintf("%s/%d", way, h.kills))
	}
	p := job{Do: ask, Site: s, DieIn: point, Sessions: sessions, Text: string(h.vendor)}.start(t)
	p.hear(inFlight)
	if point == anyTime {
		<-time.After(rand.N(h.delay))
	}
	p.kill()
	h.kills++
	h.w.seize(t, sessions...)
	before := make(map[string]map[string]string)
	settled := 0
	for _, session := range sessions {
		before[session] = h.w.records(t, session)
		if _, err := h.alive.Turn(t.Context(), session, checkpoint.Newest); err == nil {
			settled++
		}
	}
	h.found += len(sessions) - settled // less those that have no record
	if point == anyTime {
		h.delay = h.delay * 21 / 20
		if settled == len(sessions) { // too late to matter
			h.over++
			h.delay = h.delay * 3 / 4
		}
	}
	errs := make([]error, len(sessions))
	var all sync.WaitGroup
	for i, session := range sessions {
		all.Go(func() { errs[i] = h.goOn(t, session) })
	}
	all.Wait()
	counts := h.vendor.counts(t)
	for i, session := range sessions {
		asked := counts[survivor+": "+session]
		h.asked += asked
		if len(before[session]) < askingOf(session).decisions() {
			h.found--
		}
		if err := cmp.Or(errs[i], h.judge(t, session, point, before[session], asked)); err != nil {
			wrong = append(wrong, fmt.Sprintf("killed %s: %s: %v", point, session, err))
		}
	}
	return wrong
}

// goOn goes on with a session. A claim of the dead process may come to the server after its death.
func (h *hunt) goOn(t *testing.T, session string) (err error) {
	for range 5 {
		if err = h.alive.goOn(t.Context(), session, h.kills%2 == 0); !errors.Is(err, orchestrator.ErrBusy) {
			return err
		}
		h.w.seize(t, session)
	}
	return err
}

// clean deletes the runs of turns that the dead have settled. A repeat of a request leaves such a run to the drain,
// which waits for its pause. No other run is in flight.
func (h *hunt) clean(t *testing.T) {
	t.Helper()
	for r, err := range h.alive.Runs(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.alive.Resume(t.Context(), r.Session, nil); !errors.Is(err, orchestrator.ErrNothingToResume) {
			t.Errorf("%s was in flight: %v", r.Session, err)
		}
	}
	wantRuns(t, h.alive.bot, 0)
}

// judge returns what is wrong with a session. Before it went on it had these records. Then the model was asked so
// often.
func (h *hunt) judge(t *testing.T, session, point string, before map[string]string, asked int) error {
	t.Helper()
	want := askingOf(session).decisions()
	switch point {
	case payBefore, payAfter, finishBefore:
		if len(before) != want-1 {
			return fmt.Errorf("there were the records %q", before)
		}
	case finishAfter, settling:
		if len(before) != want {
			return fmt.Errorf("there were the records %q", before)
		}
	}
	after := h.w.records(t, session)
	if len(after) != want {
		return fmt.Errorf("there are the records %q, want %d", after, want)
	}
	for id, reply := range before {
		if after[id] != reply {
			return fmt.Errorf("%q is lost: there are %q", reply, after)
		}
	}
	ours := 0
	for _, reply := range after {
		if strings.HasSuffix(reply, survivor) {
			ours++
		}
	}
	if asked != ours || asked > want-len(before) {
		return fmt.Errorf("asked %d times: there were %q, and are %q", asked, before, after)
	}
	turn, err := h.alive.Turn(t.Context(), session, 0)
	if err != nil {
		return err
	}
	if last := newest(maps.Values(after)); !slices.Equal(turn.State.Said, []string{last}) {
		return fmt.Errorf("it says %q, want %q", turn.State.Said, last)
	}
	return nil
}

// Processes that ask a model are killed, at each point and at any time: in the first attempt, and in one after a
// failure by the Retry of the intent, by the same request id, and under a drain. What was recorded before the kill is
// found by the process that goes on. What a decision to try again asks is asked once. 500 kills on each site are for
// HOLDFAST_SOAK=1, otherwise there are 10.
func TestRecordsKilled(t *testing.T) {
	kills := 10
	if soak() {
		kills = 500
	}
	ledgerSites(t, func(t *testing.T, s site) {
		h := openSite(t, s).hunt(t, newVendor(t))
		began := time.Now()
		for h.kills < kills && !t.Failed() {
			point := anyTime
			if h.kills%2 == 0 {
				point = recordPoints[h.kills/2%len(recordPoints)]
			}
			for _, wrong := range h.kill(t, s, point) {
				t.Error(wrong)
			}
		}
		h.clean(t)
		t.Logf("%d kills in %v, %d of them too late: %d records of turns in flight were found, %d calls asked again",
			h.kills, time.Since(began).Round(time.Second), h.over, h.found, h.asked)
	})
}

// forgetful is a ledger that does not find an effect by its id.
type forgetful struct{ ledger.Ledger }

// Effects implements [ledger.Ledger].
func (l forgetful) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	if q.ID != "" {
		return func(func(ledger.Effect, error) bool) {}
	}
	return l.Ledger.Effects(ctx, q)
}

// TestRecordsKilled would see a record that is lost.
func TestRecordsLost(t *testing.T) {
	s := onSQLite(t)
	w := openSite(t, s)
	w.ledger = forgetful{w.ledger}
	if wrong := w.hunt(t, newVendor(t)).kill(t, s, finishAfter); len(wrong) != len(askings) {
		t.Errorf("%d of %d sessions have asked again: %q", len(wrong), len(askings), wrong)
	}
}
