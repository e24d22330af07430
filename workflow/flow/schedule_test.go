package flow_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

const day = 24 * time.Hour

// A lines is where a test reads what was logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func (l *lines) options() *flow.Options {
	return &flow.Options{Logger: slog.New(slog.NewTextHandler(l, nil))}
}

// inputs returns the inputs of the runs of a workflow by the time of their start, and those of one time by key.
func (w *world) inputs(name string) (all []string) {
	w.Helper()
	var runs []workflow.Run
	for r, err := range w.Runs(w.Context(), workflow.Query{Workflow: name}) {
		if err != nil {
			w.Fatal(err)
		}
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b workflow.Run) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Key, b.Key))
	})
	for _, r := range runs {
		all = append(all, strings.Trim(string(r.Input), `"`))
	}
	return all
}

func (w *world) wantInputs(name string, want ...string) {
	w.Helper()
	if got := w.inputs(name); !slices.Equal(got, want) {
		w.Errorf("%d runs: %q, want %q", len(got), got, want)
	}
}

// report returns a workflow of days, which fails while fails is set.
func report(fails *atomic.Bool, opts ...flow.DefinitionOption) *flow.Workflow[string, int] {
	return flow.New("report", 2, func(*flow.Run, string) (int, error) {
		if fails != nil && fails.Load() {
			return 0, errors.New("no paper")
		}
		return 1, nil
	}, opts...)
}

func ofDay(at time.Time) string { return at.Format("01-02 15:04") }

// Three processes keep the same time. There is one run a time, with the version and the retention of the definition.
func TestSchedule(t *testing.T) {
	inBubble(t, func(w *world) {
		def := report(nil, flow.Keep(7))
		nightly := def.On("0  3 * * *", ofDay, false)
		for range 2 {
			w.run(w.process(), nil, def, nightly, def.On("CRON_TZ=Asia/Tokyo 30 0 * * *", ofDay, false))
		}
		w.run(w.process(), nil, nightly) // it brings the workflow along
		time.Sleep(2*day + 4*time.Hour)
		w.wantInputs("report", "01-01 03:00", "01-02 00:30", "01-02 03:00", "01-03 00:30", "01-03 03:00")
		q := workflow.Query{KeyPrefix: "schedule 0 3 * * * at ", Workflow: "report"}
		for r, err := range w.Runs(w.Context(), q) {
			if err != nil || r.Version != 2 || r.RetentionDays != 7 || r.Status != workflow.Completed ||
				r.Key != q.KeyPrefix+r.Started.Format(time.RFC3339) {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}

// An ordered store notes the inputs of its starts.
type ordered struct {
	*process

	inputs []string
}

func (o *ordered) Start(ctx context.Context, runs []workflow.NewRun) ([]workflow.Started, error) {
	for _, r := range runs {
		o.inputs = append(o.inputs, strings.Trim(string(r.Input), `"`))
	}
	return o.process.Start(ctx, runs)
}

// What passed while no process ran is caught up, or not.
func TestScheduleCatchUp(t *testing.T) {
	for _, c := range []struct {
		schedule string
		catchUp  bool
		up, away time.Duration
		first    string // of the runs that were caught up
		runs     int
		warned   int
	}{
		{"0 3 * * *", false, 4 * time.Hour, 5 * day, "", 0, 0},
		{"0 3 * * *", true, 4 * time.Hour, 5 * day, "01-02 03:00", 5, 0},
		{"@every 1h", true, 4 * time.Hour, 100 * time.Hour, "01-01 05:00", 100, 0},
		{"@every 1h", true, 4 * time.Hour, 150 * time.Hour, "01-03 07:00", 100, 1},
		{"@every 1s", true, 10 * time.Second, 10 * day, "01-10 23:58", 100, 1},
	} {
		inBubble(t, func(w *world) {
			nightly := report(nil).On(c.schedule, ofDay, c.catchUp)
			_, stop := w.run(w.process(), nil, nightly)
			time.Sleep(c.up + time.Millisecond)
			stop()
			time.Sleep(c.away)
			log, s := new(lines), &ordered{process: w.process()}
			_, stop = w.run(s, log.options(), nightly)
			time.Sleep(500 * time.Millisecond)
			stop()
			all := s.inputs
			if len(all) != c.runs || len(all) > 0 && all[0] != c.first || log.count("missed times") != c.warned ||
				!slices.IsSorted(all) {
				t.Errorf("%+v: %d runs, %.60q", c, len(all), all)
			}
		})
	}
}

// A schedule that is new has missed nothing, and neither has one whose newest run is of another schedule.
func TestScheduleIsNew(t *testing.T) {
	inBubble(t, func(w *world) {
		def := report(nil)
		_, stop := w.run(w.process(), nil, def.On("0 0 * * */2", ofDay, true))
		time.Sleep(3*day - time.Hour)
		stop()
		before := len(w.inputs("report"))
		w.run(w.process(), nil, def.On("0 0 * * *", ofDay, true))
		time.Sleep(time.Minute)
		if all := w.inputs("report"); len(all) != before || before != 1 {
			t.Errorf("runs %q", all)
		}
	})
}

// After three failures in a row a schedule waits for a run that is started by hand. Another schedule of the workflow
// goes on.
func TestSchedulePauses(t *testing.T) {
	for _, catchUp := range []bool{false, true} {
		inBubble(t, func(w *world) {
			var fails atomic.Bool
			log, def := new(lines), report(&fails)
			w.run(w.process(), log.options(), def.On("0 3 * * *", ofDay, catchUp))
			time.Sleep(day) // 01-01
			fails.Store(true)
			time.Sleep(2 * day) // 01-02, 01-03
			w.start("report", "by hand, and fails", nil)
			time.Sleep(5 * day) // 01-04, 01-05, 01-06; 01-07 and 01-08 are missed
			paused := []string{
				"01-01 03:00", "01-02 03:00", "01-03 03:00", "by hand, and fails", "01-04 03:00", "01-05 03:00", "01-06 03:00",
			}
			w.wantInputs("report", paused...)
			if n := log.count("schedule is paused"); n != 1 || log.count("by hand") != 1 {
				t.Errorf("%d lines of a pause", n)
			}
			fails.Store(false)
			time.Sleep(day) // 01-09
			w.wantInputs("report", paused...)
			w.start("report", "by hand", nil)
			time.Sleep(2 * day) // 01-10, 01-11
			if catchUp {
				w.wantInputs("report", append(paused, "by hand", "01-07 03:00", "01-08 03:00", "01-09 03:00",
					"01-10 03:00", "01-11 03:00")...)
			} else {
				w.wantInputs("report", append(paused, "by hand", "01-10 03:00", "01-11 03:00")...)
			}
		})
	}
}

func TestSchedulesOfOneWorkflow(t *testing.T) {
	inBubble(t, func(w *world) {
		def := flow.New("report", 1, func(_ *flow.Run, in string) (int, error) {
			if in == "bad" {
				return 0, errors.New("bad")
			}
			return 1, nil
		})
		say := func(text string) func(time.Time) string { return func(time.Time) string { return text } }
		w.run(w.process(), nil, def, def.On("@every 1m", say("bad"), false), def.On("@every 1h", say("good"), false))
		time.Sleep(3*time.Hour + time.Second)
		w.wantInputs("report", "bad", "bad", "bad", "good", "good", "good")
	})
}

// An absent store does not answer while it is away.
type absent struct {
	*process

	away atomic.Bool
}

func (a *absent) Runs(ctx context.Context, q workflow.Query) iter.Seq2[workflow.Run, error] {
	if a.away.Load() {
		return func(yield func(workflow.Run, error) bool) { yield(workflow.Run{}, errCut) }
	}
	return a.process.Runs(ctx, q)
}

// A run is started late if the store is away. If the next time has come by then, the former is missed.
func TestScheduleStoreAway(t *testing.T) {
	for _, catchUp := range []bool{false, true} {
		inBubble(t, func(w *world) {
			log, s := new(lines), &absent{process: w.process()}
			w.run(s, log.options(), report(nil).On("@every 1h", ofDay, catchUp))
			away := func(d time.Duration) {
				s.away.Store(true)
				time.Sleep(d)
				s.away.Store(false)
				s.cut(true)
				time.Sleep(5 * time.Minute)
				s.cut(false)
				time.Sleep(time.Minute)
			}
			time.Sleep(59 * time.Minute)
			away(10 * time.Minute)
			w.wantInputs("report", "01-01 01:00")
			away(2 * time.Hour) // until 03:20
			want := []string{"01-01 01:00", "01-01 02:00", "01-01 03:00"}
			if !catchUp {
				want = slices.Delete(want, 1, 2)
			}
			w.wantInputs("report", want...)
			if missed := log.count("missed times"); catchUp == (missed > 0) || log.count("tries again") == 0 {
				t.Errorf("%d lines about missed times", missed)
			}
		})
	}
}

// If processes do not agree about an input, one of them wins. An input that cannot be had is no end of the schedule.
func TestScheduleInputs(t *testing.T) {
	inBubble(t, func(w *world) {
		log := new(lines)
		for i := range 2 {
			w.run(w.process(), log.options(), report(nil).On("@every 1h", func(at time.Time) string {
				if at.Hour() == 2 {
					panic("no input")
				}
				return fmt.Sprint(i)
			}, true))
		}
		time.Sleep(3*time.Hour + time.Minute)
		if all := w.inputs("report"); len(all) != 2 {
			t.Errorf("runs %q", all)
		}
		if log.count("another input") > 2 || log.count("cannot start its run\"") != 2 || log.count("no input") == 0 {
			t.Errorf("logged %s", &log.text)
		}
	})
}

// An engine starts one run a time, and asks no more often.
func TestScheduleCost(t *testing.T) {
	inBubble(t, func(w *world) {
		p := w.process()
		w.run(p, nil, report(nil).On("@every 1m", ofDay, false))
		time.Sleep(time.Hour + time.Second)
		if n := p.count("start"); n != 60 {
			t.Errorf("%d starts", n)
		}
	})
}

func TestScheduleTwice(t *testing.T) {
	def := report(nil)
	panics(t, "a schedule twice", func() {
		flow.NewEngine(new(workflow.Memory), nil, def.On("@daily", ofDay, false), def.On(" @daily", ofDay, true))
	})
	panics(t, "another definition", func() {
		flow.NewEngine(new(workflow.Memory), nil, def, report(nil).On("@daily", ofDay, false))
	})
}
