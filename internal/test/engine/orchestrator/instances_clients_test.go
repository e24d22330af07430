package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A told is an input and its final answer: a result, a failure, or none.
type told struct {
	Input
	sent, answered int64 // when it was first sent and last answered, by the fleet's clock
	res            *Result
	failed         bool
}

// serve lets clients send their inputs, drains, and returns the broken promises.
func (f *fleet) serve(t *testing.T) []string {
	t.Helper()
	start := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	var nuisances, clients sync.WaitGroup
	nuisances.Go(func() { f.stopSome(ctx) })
	for _, i := range f.instances {
		nuisances.Go(func() { f.watch(ctx, i) })
	}
	idle := make(chan *client, fleetSessions)
	for n := range fleetSessions {
		idle <- &client{fleet: f, session: nameOf(n), rng: rand.New(rand.NewPCG(f.seed, uint64(n+1)))}
	}
	var inputs atomic.Int64
	for range fleetAtOnce {
		clients.Go(func() {
			for inputs.Add(1) <= int64(turnsOf(f.world)) {
				c := <-idle
				c.say(t.Context())
				idle <- c
			}
		})
	}
	clients.Wait()
	stop()
	f.calm.Store(true)
	nuisances.Wait()
	f.behind.Wait()
	f.drain(t)
	t.Logf("seed %d: %d inputs, %v; %v", f.seed, turnsOf(f.world), &f.count, time.Since(start).Round(time.Millisecond))
	return f.violations(t)
}

// stopSome stops one process after the other for longer than its leases.
func (f *fleet) stopSome(ctx context.Context) {
	for {
		i := f.another(nil)
		open := make(chan struct{})
		i.stopped.Store(&open)
		f.count.stopped.Add(1)
		pause(ctx, fleetTTL+f.upTo(fleetTTL))
		i.stopped.Store(nil)
		close(open)
		if !pause(ctx, f.upTo(6*fleetTTL)) {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// watch recovers the unfinished runs that a process finds.
func (f *fleet) watch(ctx context.Context, i *instance) {
	for pause(ctx, fleetTTL/2) {
		for _, bot := range i.bots {
			for session, err := range bot.Recoverable(ctx, true) {
				if err == nil && f.chance(200) {
					_, err = bot.Recover(ctx, session)
				}
				if ctx.Err() == nil {
					f.judge("watch", err)
				}
			}
		}
	}
}

// A client talks in one session. When an input is done, it sends the next.
type client struct {
	fleet   *fleet
	session string
	rng     *rand.Rand
	said    int
}

// say sends the next input.
func (c *client) say(ctx context.Context) {
	in := &told{Input: Input{
		Text:      fmt.Sprintf("%c%d", 'a'+c.rng.IntN(2), c.said),
		RequestID: fmt.Sprint("request ", c.said),
	}}
	if c.chance(50) {
		in.RequestID = ""
	}
	c.said++
	in.sent = c.fleet.clock.Add(1)
	c.fleet.witness.input(c.session, in)
	c.ask(ctx, in)
}

func (c *client) chance(permille int) bool { return c.rng.IntN(1000) < permille }

// ask sends an input until its client knows the outcome, or cannot find it out.
func (c *client) ask(ctx context.Context, in *told) {
	count := &c.fleet.count
	// The input may be in flight from an earlier time.
	doubt := false
	for {
		copies := 1
		if in.RequestID != "" && c.chance(150) {
			copies = 2
			count.twice.Add(2)
		}
		results, errs := c.send(ctx, in.Input, copies)
		in.answered = c.fleet.clock.Add(1)
		over := true
		for n, err := range errs {
			if err == nil {
				c.sameResult(in, results[n])
				continue
			}
			over = over && !errors.Is(err, orchestrator.ErrIndeterminate) && (!doubt || errors.Is(err, errBot))
			doubt = doubt || errors.Is(err, orchestrator.ErrIndeterminate)
		}
		switch {
		case in.res != nil:
			return
		case over && (in.RequestID == "" || c.chance(300)):
			in.failed = true
			count.failed.Add(1)
			return
		case in.RequestID == "":
			return
		}
		count.again.Add(1)
	}
}

// sameResult notes a result. All callers must get the same one.
func (c *client) sameResult(in *told, res *Result) {
	if in.res == nil {
		in.res = res
	}
	if res.RunID != in.res.RunID || res.Turn != in.res.Turn || res.Input.Text != in.Text {
		c.fleet.judge(c.session, fmt.Errorf("%+v and %+v are told of %v", in.res, res, in.Input.Text))
	}
}

// send sends copies of an input, to different processes at the same time. Sometimes its client goes away.
func (c *client) send(ctx context.Context, in Input, copies int) (results []*Result, errs []error) {
	results, errs = make([]*Result, copies), make([]error, copies)
	first := c.rng.IntN(fleetSize)
	var all sync.WaitGroup
	for n := range copies {
		ctx, cancel := context.WithCancelCause(ctx)
		if c.chance(20) {
			stop := time.AfterFunc(time.Duration(c.rng.IntN(int(20*time.Millisecond))), func() { cancel(errGone) })
			defer stop.Stop()
		}
		bot := c.fleet.instances[(first+n)%fleetSize].serving(c.session)
		c.fleet.count.calls.Add(1)
		all.Go(func() {
			results[n], errs[n] = bot.Execute(ctx, c.session, in, nil)
			cancel(nil)
			c.fleet.judge("execute", errs[n])
		})
	}
	all.Wait()
	return results, errs
}

// owes reports whether a reply of bot is owed, due or not.
func (f *fleet) owes(t *testing.T, bot *Bot) bool {
	t.Helper()
	q := checkpoint.SessionQuery{Orchestrator: bot.Name(), Owing: true, Limit: 1}
	for session, err := range f.Checkpoints.Sessions(t.Context(), q) {
		if err != nil {
			t.Fatalf("%s: %v", session, err)
		}
		return pause(t.Context(), 50*time.Millisecond)
	}
	return false
}

// drain finishes all unfinished work, without faults.
func (f *fleet) drain(t *testing.T) {
	t.Helper()
	i := f.instances[0]
	for n := range fleetSessions {
		session := nameOf(n)
		for {
			_, err := i.serving(session).Resume(t.Context(), session, nil)
			if errors.Is(err, orchestrator.ErrNothingToResume) {
				break
			}
			if err != nil && !slow(err) {
				t.Fatalf("drain of %s: %v", session, err)
			}
		}
	}
	for _, bot := range i.bots {
		// A delivery that ran into its time limit stays owed, and is not due for a while.
		patience := time.Now().Add(time.Minute)
		for left := true; left && time.Now().Before(patience); {
			left = false
			for session, err := range bot.Recoverable(t.Context(), true) {
				if left = true; err == nil {
					_, err = bot.Recover(t.Context(), session)
				}
				if err != nil && !slow(err) {
					t.Fatalf("drain of %s: %v", session, err)
				}
			}
			left = left || f.owes(t, bot)
		}
		for session, err := range bot.Recoverable(t.Context(), true) {
			t.Errorf("%s is still to be recovered, error %v", session, err)
		}
		for r, err := range f.Snapshots.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: bot.Name()}}) {
			t.Errorf("in flight: %s of %s, %s, error %v", r.ID, r.Session, r.Status, err)
		}
	}
}
