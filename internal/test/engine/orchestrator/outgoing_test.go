package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// marker is in everything that must not go out.
const marker = "zq7x"

// secret is a text that must not go out. what says where it was planted.
func secret(what string) string { return marker + "-" + what }

// errSecret is the error of a function of the bot. Its text repeats the user, as the caller of a model might.
func errSecret(what string) error { return fmt.Errorf("the user said: %w", errors.New(secret(what))) }

// A ward collects all that goes out of a process.
type ward struct {
	world
	level  slog.Level
	log    *lockedBuffer
	spans  *tracetest.SpanRecorder
	meter  *metric.ManualReader
	events diary
}

func newWard(t *testing.T) *ward {
	w := &ward{world: newWorld(), log: new(lockedBuffer), spans: traced(t), meter: metric.NewManualReader()}
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(w.meter)))
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	return w
}

// The level is that of production. At Debug the texts of errors are in the log: see TestLogError.
func (w *ward) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: w.level, AddSource: true}))
}

// open starts a process whose log lines and events are kept.
func (w *ward) open(t *testing.T, d Def, o Options) *Bot {
	t.Helper()
	o.Logger = w.logger()
	o.Limits.Attempts, o.SessionTrace = 2, true
	bot := w.Start(t, d, o)
	bot.Subscribe(w.events.Note)
	return bot
}

// out returns everything that has gone out, by where it went.
func (w *ward) out(t *testing.T) map[string]string {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := w.meter.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var events strings.Builder
	for _, ev := range w.events.All() {
		ev.RequestID = "" // an id of the caller's, which is for events and not for logs
		data, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		events.Write(append(data, '\n'))
	}
	metrics, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"log": w.log.String(), "spans": fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(w.spans.Ended())),
		"metrics": string(metrics), "events": events.String(),
	}
}

// chatty is a bot in which everything that a user or the bot itself says is a secret.
func chatty() Def {
	return Def{
		Name: "chatty", Iterate: true,
		Begin: func(_ context.Context, t *Turn) error {
			t.State.A = secret("state")
			return nil
		},
		Route: func(_ context.Context, t *Turn) (Next, error) {
			if t.Iteration > 1 {
				return Next{End: true, Reason: secret("reason of end")}, nil
			}
			return Next{Intents: []string{"one", "two"}, Reason: secret("reason")}, nil
		},
		Evaluate: func(_ context.Context, t *Turn) (Next, error) {
			t.Feedback = secret("feedback")
			return Next{}, nil
		},
		Intents: Intents{"one": {Run: say(secret("said")), Description: secret("description")}, "two": {Run: fact}},
		Deliver: func(context.Context, *Result) error { return nil },
	}
}

func fact(_ context.Context, t *Turn) error {
	t.State.Facts = map[string]int{secret("fact"): t.Iteration}
	return nil
}

func recalls(context.Context, string) ([]message.Message, error) {
	return []message.Message{message.User(secret("history"))}, nil
}

// asked returns the input of a stranger, and a context with values.
func asked(t *testing.T) (context.Context, Input) {
	t.Helper()
	m, err := baggage.NewMember("user", secret("header"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := baggage.New(m)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]string{secret("key"): secret("data")})
	if err != nil {
		t.Fatal(err)
	}
	in := Input{RequestID: secret("request"), Text: secret("text"), Data: data}
	return baggage.ContextWithBaggage(t.Context(), b), in
}

// once makes some turns, and drains the runs that are left, until no drain tries them.
func (w *ward) once(t *testing.T, d Def, o Options) {
	t.Helper()
	ctx, in := asked(t)
	bot := w.open(t, d, o)
	for i := range 3 {
		in.RequestID = fmt.Sprint(secret("request"), i)
		_, _ = bot.Execute(ctx, "s", in, &orchestrator.CallOptions{OnEvent: w.events.Note})
	}
	w.drain(t, bot)
}

func (w *ward) drain(t *testing.T, bot *Bot) {
	t.Helper()
	o := &bootdrain.Options{Logger: w.logger()}
	if _, err := bootdrain.DrainInterrupted(t.Context(), bot, o); err != nil {
		t.Error(err)
	}
}

// leftBehind has a run of a process that died, and drains it in processes of d.
func (w *ward) leftBehind(t *testing.T, d Def, o Options) {
	t.Helper()
	_, in := asked(t)
	w.Crash(t, func(die func()) Def {
		dying := d
		dying.Begin, dying.Route = nil, func(context.Context, *Turn) (Next, error) {
			die()
			return orchestrator.To("one"), nil
		}
		return dying
	}, in)
	bot := w.open(t, d, o)
	for range 3 {
		w.drain(t, bot)
	}
	w.storedErrors(t, bot)
}

// storedErrors checks what the store keeps of the errors of runs: what a function returned, and nothing else that is
// secret.
func (w *ward) storedErrors(t *testing.T, bot *Bot) {
	t.Helper()
	for r, err := range bot.Runs(t.Context()) {
		if err == nil && strings.Contains(strings.ReplaceAll(r.Error, secret("error"), ""), marker) {
			t.Errorf("the stored error of a run is %q", r.Error)
		}
	}
}

func with(change func(*Def)) Def {
	d := chatty()
	change(&d)
	return d
}

func fails(what string) Intent {
	return Intent{Run: func(context.Context, *Turn) error { return errSecret(what) }}
}

// No word of a user or the bot goes out, and no text of an error that a function of the bot returned, however a turn
// ends.
func TestNothingGoesOut(t *testing.T) {
	for name, d := range failingBot() {
		t.Run(name, func(t *testing.T) { nothingGoesOut(t, d, Options{History: recalls}) })
	}
	for line, o := range failingOptions() {
		t.Run(line, func(t *testing.T) {
			if log := nothingGoesOut(t, chatty(), o); !strings.Contains(log, line) {
				t.Errorf("no log line says %q: %s", line, log)
			}
		})
	}
}

// nothingGoesOut returns what is logged.
func nothingGoesOut(t *testing.T, d Def, o Options) (log string) {
	w := newWard(t)
	w.once(t, d, o)
	w.judge(t)
	log = w.log.String()
	w = newWard(t)
	w.leftBehind(t, d, o)
	w.judge(t)
	return log + w.log.String()
}

func (w *ward) judge(t *testing.T) {
	t.Helper()
	for where, text := range w.out(t) {
		for line := range strings.Lines(text) {
			if i := strings.Index(line, marker); i >= 0 {
				t.Errorf("%s: …%.300s", where, line[max(0, i-200):])
			}
		}
	}
	if log := w.log.String(); strings.Contains(log, "err=\"\"") {
		t.Errorf("a log line says nothing of its error: %s", log)
	}
}

// failingBot are bots of which each fails in another way.
func failingBot() map[string]Def {
	boom := func(what string) func(context.Context, *Turn) (Next, error) {
		return func(context.Context, *Turn) (Next, error) { return Next{}, errSecret(what) }
	}
	return map[string]Def{
		"nothing fails": chatty(),
		"intent":        with(func(d *Def) { d.Intents["two"] = fails("error") }),
		"both intents":  with(func(d *Def) { d.Intents["one"], d.Intents["two"] = fails("error"), fails("error") }),
		"intent panics": with(func(d *Def) {
			d.Intents["two"] = Intent{Run: func(context.Context, *Turn) error { panic(secret("error")) }}
		}),
		"intent panics with an error": with(func(d *Def) {
			d.Intents["two"] = Intent{Run: func(context.Context, *Turn) error { panic(errSecret("error")) }}
		}),
		"intent exits": with(func(d *Def) {
			d.Intents["two"] = Intent{Run: func(context.Context, *Turn) error { runtime.Goexit(); return nil }}
		}),
		"intent is tried again": with(func(d *Def) {
			in := fails("error")
			in.Retry = retry.Policy{Attempts: 2, Wait: func(int) time.Duration { panic(secret("error")) }}
			d.Intents["two"] = in
		}),
		"Begin": with(func(d *Def) { d.Begin = func(context.Context, *Turn) error { return errSecret("error") } }),
		"Begin refuses": with(func(d *Def) {
			d.Begin = func(context.Context, *Turn) error {
				return &orchestrator.InputError{Field: secret("field"), Reason: secret("why")}
			}
		}),
		"Route":    with(func(d *Def) { d.Route = boom("error") }),
		"Evaluate": with(func(d *Def) { d.Evaluate = boom("error") }),
		"Route names what is not there": with(func(d *Def) {
			d.Route = func(context.Context, *Turn) (Next, error) { return orchestrator.To(secret("error")), nil }
		}),
		"Merge": with(func(d *Def) {
			d.Merge = func(State, []State) (State, error) { return State{}, errSecret("error") }
		}),
		"Deliver": with(func(d *Def) {
			d.Deliver = func(context.Context, *Result) error { return errSecret("error") }
		}),
		"Deliver panics": with(func(d *Def) {
			d.Deliver = func(context.Context, *Result) error { panic(secret("error")) }
		}),
	}
}

// failingOptions are options whose functions fail, by what is logged then.
func failingOptions() map[string]Options {
	usage := func(context.Context, orchestrator.Range) (orchestrator.Usage, error) {
		return orchestrator.Usage{}, errSecret("compaction")
	}
	return map[string]Options{
		"run not finished": {History: func(context.Context, string) ([]message.Message, error) {
			return nil, errSecret("error")
		}},
		"not compacted": {Compaction: orchestrator.Compaction{
			Keep: 1, Run: usage, Due: func(context.Context, orchestrator.Range) bool { return true },
		}},
		"not asked whether to compact": {Compaction: orchestrator.Compaction{
			Keep: 1, Run: usage, Due: func(context.Context, orchestrator.Range) bool { panic(secret("due")) },
		}},
	}
}

// A handler of events that panics with what it was handed is no leak either.
func TestNothingGoesOutOfHandlers(t *testing.T) {
	w := newWard(t)
	ctx, in := asked(t)
	bot := w.open(t, chatty(), Options{})
	bot.Subscribe(func(ev Event) { panic(secret("handler") + ev.Next.Reason) })
	_, err := bot.Execute(ctx, "s", in, &orchestrator.CallOptions{OnEvent: func(Event) { panic(errSecret("handler")) }})
	if err != nil {
		t.Fatal(err)
	}
	w.judge(t)
	if !strings.Contains(w.log.String(), "event handler panicked") {
		t.Errorf("nothing is logged: %s", w.log)
	}
}

// What cannot be read of a state, or of a run, is not told.
func TestNothingGoesOutOfRows(t *testing.T) {
	const number = "77077077077077077077077"
	w := newWard(t)
	k := checkpoint.Key{Orchestrator: "chatty", Session: "s"}
	c, err := seize(t.Context(), w.Checkpoints, k, "test", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	run := snapshot.Run{
		Key: k, ID: "run", Status: snapshot.Running, Seq: 1, Attempt: 1, Fence: c.Fence,
		Payload: fmt.Appendf(nil,
			`{"v":1,"born":%d,"input":{"text":%q},"iteration":%s}`, c.Born, secret("text"), number),
	}
	if _, err := w.Snapshots.Begin(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	cp := checkpoint.Checkpoint{State: []byte(`{"N":` + number + `}`), Signature: "x", RunID: "first"}
	owed := checkpoint.AppendOptions{Owes: true, Release: true}
	if err := w.Checkpoints.Append(t.Context(), c.Lease, cp, owed); err != nil {
		t.Fatal(err)
	}
	d := chatty()
	d.Migrate = func(_ context.Context, cp checkpoint.Checkpoint) (s State, err error) {
		return s, json.Unmarshal(cp.State, &s)
	}
	bot := w.open(t, d, Options{})
	for range 3 {
		w.drain(t, bot)
	}
	w.judge(t)
	log := w.log.String()
	if strings.Contains(log, number) || !strings.Contains(log, "UnmarshalTypeError") {
		t.Errorf("of rows that cannot be read: %s", log)
	}
}

// What a store says is for operators. So is all, if the caller wants it.
func TestLogError(t *testing.T) {
	failing := with(func(d *Def) {
		d.Deliver = func(context.Context, *Result) error { return errSecret("deliver") }
	})
	for _, c := range []struct {
		level slog.Level
		logs  func(error) string
		want  string
	}{
		{slog.LevelInfo, nil, " err=*errors.errorString"},
		{slog.LevelDebug, nil, secret("deliver")},
		{slog.LevelInfo, error.Error, secret("deliver")},
		{slog.LevelDebug, func(error) string { return "my own text" }, "err=\"my own text\""},
	} {
		w := newWard(t)
		w.level = c.level
		bot := w.open(t, failing, Options{LogError: c.logs, Locker: brokenLocker{}})
		execute(t, bot, Input{Text: "hello"})
		store := "err=\"locker: host db.internal refused\""
		if log := w.log.String(); !strings.Contains(log, c.want) || c.logs == nil && !strings.Contains(log, store) {
			t.Errorf("the log lacks %q: %s", c.want, log)
		}
	}
}

type brokenLocker struct{}

var errLocker = errors.New("locker: host db.internal refused")

func (brokenLocker) Lock(context.Context, string) (context.Context, func(), error) {
	return nil, nil, errLocker
}

func (brokenLocker) TryLock(context.Context, string) (context.Context, func(), error) {
	return nil, nil, errLocker
}

var _ lock.Locker = brokenLocker{}

// The caller, and Subscribe, get the error itself.
func TestErrorsStayInside(t *testing.T) {
	boom := errors.New(secret("error"))
	w := newWorld()
	d := echo()
	d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { return boom }}
	bot := w.Start(t, d, Options{})
	var ended error
	_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, &orchestrator.CallOptions{OnEvent: func(ev Event) {
		if ev.Kind == orchestrator.IntentEnded {
			ended = ev.Err
		}
	}})
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), boom.Error()) {
		t.Errorf("the caller got %v", err)
	}
	if ended != boom { //nolint:errorlint // the very error, for handlers that compare
		t.Errorf("the event has %v", ended)
	}
	w.Crash(t, func(die func()) Def {
		return with(func(d *Def) { d.Name, d.Begin, d.Route = "echo", nil, dies(die) })
	}, Input{Text: "b"})
	d.Migrate = func(context.Context, checkpoint.Checkpoint) (State, error) { return State{}, nil }
	bot = w.Start(t, d, Options{})
	if _, err := bot.Recover(t.Context(), "s"); !errors.Is(err, boom) {
		t.Errorf("the drain got %v", err)
	}
	if runs := wantRuns(t, bot, 1); !strings.Contains(runs[0].Error, boom.Error()) {
		t.Errorf("the run is stored with %q", runs[0].Error)
	}
}

func dies(die func()) func(context.Context, *Turn) (Next, error) {
	return func(context.Context, *Turn) (Next, error) { die(); return orchestrator.To("one"), nil }
}

// An event in JSON has all of its fields but Err and the reason of a router.
func TestEventJSON(t *testing.T) {
	ev := Event{Kind: orchestrator.Routed, Session: "s", Turn: 3, Err: errSecret("error"), Next: Next{
		Intents: []string{"one"}, End: true, Reason: secret("reason"),
	}}
	data, err := json.Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); strings.Contains(text, marker) || strings.Contains(text, "Reason") {
		t.Errorf("the event is %s", text)
	}
	var back Event
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	ev.Err, ev.Next.Reason = nil, ""
	if fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", ev) {
		t.Errorf("%+v comes back as %+v", ev, back)
	}
}
