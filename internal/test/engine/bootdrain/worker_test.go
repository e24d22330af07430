package bootdrain_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The lines that a process writes.
const (
	// ready to drain: the process begins when it is told to go on.
	ready = "ready"
	// inFlight: all turns are in their intents.
	inFlight = "in flight"
	// left: after the process was told to go on, Shutdown has returned without waiting.
	left = "left"
)

// A worker is a process that does a job. A line on its standard input tells it to go on. It ends when the test ends, or
// the test's process.
type worker struct {
	job
	bot     *bot
	bots    []*bot        // with bot
	entered chan struct{} // an intent is waiting
	goOn    chan struct{}
}

// work does the job.
func work(text string) error {
	k := &worker{entered: make(chan struct{}), goOn: make(chan struct{}, 1)}
	if err := json.Unmarshal([]byte(text), &k.job); err != nil {
		return err
	}
	ctx := context.Background()
	if k.Do == vend {
		return vendOn()
	}
	if k.Do == doServe {
		return serveDeploy(ctx, k.job)
	}
	go k.listen()
	w, err := k.Site.open(ctx)
	defer w.close()
	if err != nil {
		return err
	}
	switch k.Do {
	case buy:
		return k.buy(ctx, w)
	case ask:
		return k.ask(ctx, w)
	case tell:
		return k.tell(ctx, w)
	case book:
		return k.book(ctx, w)
	}
	if k.DieIn == "delete" {
		w.snapshots = deadly(w.snapshots)
	}
	for range max(k.Bots, 1) {
		if k.bot, err = w.bot(k.body); err != nil {
			return err
		}
		k.bots = append(k.bots, k.bot)
	}
	switch k.Do {
	case drainAll:
		return k.drain(ctx)
	case besieged:
		return k.serve(ctx)
	case lifelong:
		return k.live(ctx)
	}
	return k.execute(ctx)
}

func (k *worker) listen() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		k.goOn <- struct{}{}
	}
	os.Exit(1)
}

func (k *worker) body(ctx context.Context, _ *turn) error {
	switch k.Body {
	case die:
		suicide()
	case wait:
		k.entered <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// suicide ends the process as the kernel does when memory runs out.
func suicide() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // the signal is on its way
}

// deadly is a snapshot store that kills the process which is about to delete the run of a settled turn.
func deadly(s snapshot.Store) snapshot.Store {
	return faulttest.Snapshots(s, faulttest.On(
		func(context.Context, faulttest.Call, func(context.Context) error) error {
			suicide()
			return nil
		}, "Delete"))
}

// execute begins the turns, one after the other. When it is told to go on, it hands them off.
func (k *worker) execute(ctx context.Context) error {
	var ends []chan error
	for i, session := range k.Sessions {
		b := k.bots[i%len(k.bots)]
		end := make(chan error, 1)
		ends = append(ends, end)
		go func() {
			_, err := b.Execute(ctx, session, orchestrator.Input{Text: k.Text}, nil)
			end <- err
		}()
		select {
		case <-k.entered:
		case err := <-end:
			return fmt.Errorf("the turn of %s did not wait: %w", session, err)
		}
	}
	fmt.Println(inFlight)
	<-k.goOn
	now, cancel := context.WithCancel(ctx)
	cancel()
	for _, b := range k.bots {
		if err := b.Shutdown(now); err != nil {
			return err
		}
	}
	for _, end := range ends {
		if err := <-end; !errors.Is(err, lock.ErrHandoff) || !errors.Is(err, orchestrator.ErrIndeterminate) {
			return fmt.Errorf("not handed off: %w", err)
		}
	}
	fmt.Println(left)
	return nil
}

// drain makes passes until all runs are finished, and reports the outcomes.
func (k *worker) drain(ctx context.Context) error {
	fmt.Println(ready)
	<-k.goOn
	sum, err := passes(ctx, k.bot)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(sum)
}

// outcomes counts the outcomes of runs. The key of a failure is its error.
type outcomes map[string]int

func (o outcomes) add(runs []bootdrain.Run) {
	for _, r := range runs {
		if r.Err != nil {
			o[r.Err.Error()]++
		} else {
			o[r.Outcome]++
		}
	}
}

// only reports whether there are n of an outcome. Beside them, it allows outcomes that change nothing: for sessions
// that another process owned, or had finished before.
func (o outcomes) only(outcome string, n int) bool {
	for other := range o {
		if other != outcome && other != "held" && (other != "cleaned" || outcome == "parked") {
			return false
		}
	}
	return o[outcome] == n
}

// passes drains until no session is due. The lease of a dead process keeps its runs for a while.
func passes(ctx context.Context, b bootdrain.Bot) (outcomes, error) {
	sum := make(outcomes)
	for {
		report, err := bootdrain.DrainInterrupted(ctx, b, &bootdrain.Options{Logger: quiet})
		sum.add(report.Runs)
		if err != nil || report.Scanned == 0 {
			return sum, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return sum, fmt.Errorf("%v: %w", sum, ctx.Err())
		}
	}
}
