package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// The errors of programs whose methods do what they must not.
type (
	apiError    struct{ inner error } // nil: Go's classic mistake
	plainError  struct{ code int }
	textPanics  struct{}
	panicsSelf  struct{} // fmt does not catch that
	isPanics    struct{}
	asPanics    struct{}
	wrapPanics  struct{}
	wrapsPanics struct{}
	wrapsItself struct{}
	wrapsTwice  struct{}
	wrapsMore   int
	badFormat   struct{}
	badLogValue struct{}
	badCompare  struct{ any }
	badDriver   struct{} // it reads like the error of a driver
	endsWork    struct{}
)

func (e *apiError) Error() string   { return "api: " + e.inner.Error() }
func (e *apiError) Unwrap() error   { return e.inner }
func (e *plainError) Error() string { return fmt.Sprint("code ", e.code) }

func (textPanics) Error() string         { panic("Error") }
func (e panicsSelf) Error() string       { panic(e) }
func (isPanics) Error() string           { return "is" }
func (isPanics) Is(error) bool           { panic("Is") }
func (asPanics) Error() string           { return "as" }
func (asPanics) As(any) bool             { panic("As") }
func (wrapPanics) Error() string         { return "unwrap" }
func (wrapPanics) Unwrap() error         { panic("Unwrap") }
func (wrapsPanics) Error() string        { return "unwrap" }
func (wrapsPanics) Unwrap() []error      { panic("Unwrap") }
func (wrapsItself) Error() string        { return "itself" }
func (e wrapsItself) Unwrap() error      { return e }
func (wrapsTwice) Error() string         { return "twice itself" }
func (e wrapsTwice) Unwrap() []error     { return []error{e, nil, e} }
func (wrapsMore) Error() string          { return "wrapsMore" }
func (e wrapsMore) Unwrap() error        { return e + 1 }
func (badFormat) Error() string          { return "format" }
func (badFormat) Format(fmt.State, rune) { panic("Format") }
func (badLogValue) Error() string        { return "log value" }
func (badLogValue) LogValue() slog.Value { panic("LogValue") }
func (badCompare) Error() string         { return "compare" }
func (badDriver) Error() string          { return "driver" }
func (badDriver) SQLState() string       { panic("SQLState") }
func (badDriver) Code() int              { panic("Code") }
func (endsWork) Error() string           { runtime.Goexit(); return "" }

var errHarmless = errors.New("harmless")

// misbehaviours are the errors by name.
func misbehaviours() map[string]error {
	var none struct {
		api   *apiError
		plain *plainError
		input *orchestrator.InputError
		own   *orchestrator.Error
		drift *orchestrator.DriftError
		doubt *orchestrator.InDoubtError
		panic *orchestrator.PanicError
		state *orchestrator.StateError
	}
	return map[string]error{
		"harmless":                 errHarmless,
		"typed nil":                none.plain,
		"typed nil with Unwrap":    none.api,
		"typed nil of InputError":  none.input,
		"typed nil of Error":       none.own,
		"typed nil of DriftError":  none.drift,
		"typed nil of InDoubt":     none.doubt,
		"typed nil of PanicError":  none.panic,
		"typed nil of StateError":  none.state,
		"Error without Err":        &orchestrator.Error{Op: "begin"},
		"Error panics":             textPanics{},
		"Error panics with itself": panicsSelf{},
		"Is panics":                isPanics{},
		"As panics":                asPanics{},
		"Unwrap panics":            wrapPanics{},
		"Unwrap of many panics":    wrapsPanics{},
		"Unwrap returns itself":    wrapsItself{},
		"Unwrap returns two":       wrapsTwice{},
		"Unwrap has no end":        wrapsMore(1),
		"Format panics":            badFormat{},
		"LogValue panics":          badLogValue{},
		"it cannot be compared":    badCompare{[]int{1}},
		"SQLState panics":          badDriver{},
		"inside others": fmt.Errorf("outer: %w", errors.Join(errHarmless, isPanics{}, none.api, wrapsItself{},
			&orchestrator.DriftError{Err: none.api}, &orchestrator.InDoubtError{Err: none.api})),
		"DriftError of it": &orchestrator.DriftError{Err: isPanics{}},
		"permanent":        retry.Permanent(none.api),
	}
}

// A shown is a value whose JSON does what an error makes of it.
type shown struct {
	N    int
	says func() error
}

func (s shown) MarshalJSON() ([]byte, error) {
	if s.says != nil {
		if err := s.says(); err != nil {
			return nil, err
		}
	}
	return json.Marshal(s.N)
}

// An unread is a value that cannot be read back.
type unread struct{ says func() error }

var reads func() error

func (u unread) MarshalJSON() ([]byte, error) { reads = u.says; return []byte("1"), nil }
func (u *unread) UnmarshalJSON([]byte) error  { return reads() }

func (s *shown) UnmarshalJSON(doc []byte) error { return json.Unmarshal(doc, &s.N) }

// An ailing is a bot of which one thing misbehaves until it is healed.
type ailing struct {
	world  world
	def    Def
	opts   Options
	ledger *ledger.Memory

	// err is the error, and panics says that it is the value of a panic, and not returned.
	err    error
	panics bool
	healed atomic.Bool

	// atStart says that the turn log takes no beginning of a run either.
	atStart bool

	// leaked says that a panic has come out of a call that a function of the bot made.
	leaked atomic.Bool
}

// watched calls what may not panic.
func (a *ailing) watched(call func() error) error {
	defer func() {
		if v := recover(); v != nil {
			a.leaked.Store(true)
			panic(v)
		}
	}()
	return call()
}

// says is what the thing does.
func (a *ailing) says() error {
	switch {
	case a.healed.Load():
		return nil
	case a.panics:
		panic(a.err)
	}
	return a.err
}

// shouts is says for a thing that returns no error.
func (a *ailing) shouts() {
	if err := a.says(); err != nil {
		panic(err)
	}
}

func (a *ailing) Record(ctx context.Context, e turnlog.Entry) error {
	if e.Phase == turnlog.Started && !a.atStart {
		return nil
	}
	return a.says()
}

func (a *ailing) Restore(context.Context, string) ([]turnlog.Entry, error) { return nil, nil }

// once runs an effect that happens, and then says what it says.
func (a *ailing) once(
	o *orchestrator.OnceOptions[shown], says, result func() error,
) func(context.Context, *Turn) error {
	return func(ctx context.Context, t *Turn) error {
		return a.watched(func() error {
			_, err := orchestrator.Once(ctx, t, "pay", func(context.Context, string) (shown, error) {
				if says != nil {
					if err := says(); err != nil {
						return shown{}, err
					}
				}
				return shown{1, result}, nil
			}, o)
			d, ok := err.(*orchestrator.InDoubtError) //nolint:errorlint // of this call
			if ok && d != nil && d.Err != nil {
				_ = errors.Is(d, io.EOF) || d.Error() == "" || d.Err.Error() == "" // it is safe to ask
			}
			return err
		})
	}
}

// places make one thing of a bot misbehave.
var places = map[string]func(a *ailing){
	"intent": func(a *ailing) {
		a.def.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { return a.says() }}
	},
	"intent, tried again": func(a *ailing) {
		a.def.Intents["echo"] = Intent{
			Run: func(context.Context, *Turn) error { return a.says() }, Retry: retry.Policy{Attempts: 2},
		}
	},
	"branches": func(a *ailing) {
		run := Intent{Run: func(context.Context, *Turn) error { return a.says() }}
		a.def.Intents = Intents{"a": run, "b": run}
		a.def.Route = func(context.Context, *Turn) (Next, error) { return orchestrator.To("a", "b"), nil }
	},
	"Route": func(a *ailing) {
		a.def.Route = func(context.Context, *Turn) (Next, error) { return orchestrator.To("echo"), a.says() }
	},
	"an item of ForEach": func(a *ailing) {
		a.def.Route = func(context.Context, *Turn) (next Next, _ error) {
			return next, a.watched(func() error {
				next = orchestrator.ForEach("echo", shown{1, a.says})
				return nil
			})
		}
	},
	"Evaluate": func(a *ailing) {
		a.def.Iterate = true
		a.def.Evaluate = func(context.Context, *Turn) (Next, error) { return orchestrator.End, a.says() }
		a.def.Route = func(context.Context, *Turn) (Next, error) { return orchestrator.To("echo"), nil }
	},
	"Then": func(a *ailing) {
		a.def.Iterate = true
		in := a.def.Intents["echo"]
		in.Then = func(context.Context, *Turn) (Next, error) { return orchestrator.End, a.says() }
		a.def.Intents["echo"] = in
	},
	"Begin": func(a *ailing) {
		a.def.Begin = func(context.Context, *Turn) error { return a.says() }
	},
	"Merge": func(a *ailing) {
		a.def.Intents = Intents{"a": {Run: say("a")}, "b": {Run: say("b")}}
		a.def.Route = func(context.Context, *Turn) (Next, error) { return orchestrator.To("a", "b"), nil }
		a.def.Merge = func(s State, _ []State) (State, error) { return s, a.says() }
	},
	"Migrate": func(a *ailing) {
		a.def.Version = "2"
		a.def.Migrate = func(_ context.Context, cp checkpoint.Checkpoint) (s State, err error) {
			return s, a.says()
		}
	},
	"Deliver": func(a *ailing) {
		a.def.Deliver = func(context.Context, *Result) error { return a.says() }
	},
	"Deliver, and it is required": func(a *ailing) {
		a.def.Deliver = func(context.Context, *Result) error { return a.says() }
		a.opts.RequireDelivered = true
	},
	"Respond": func(a *ailing) {
		a.opts.TurnLog = new(turnlog.Memory)
		a.def.Respond = func(*Result) any { a.shouts(); return 1 }
	},
	"what Respond returns": func(a *ailing) {
		a.opts.TurnLog = new(turnlog.Memory)
		a.def.Respond = func(*Result) any { return shown{1, a.says} }
	},
	"History": func(a *ailing) {
		a.opts.History = func(context.Context, string) ([]message.Message, error) { return nil, a.says() }
	},
	"Once": func(a *ailing) {
		o := &orchestrator.OnceOptions[shown]{Class: ledger.Idempotent}
		a.def.Intents["echo"] = Intent{Run: a.once(o, a.says, nil)}
	},
	"Once of class Pure": func(a *ailing) {
		o := &orchestrator.OnceOptions[shown]{Class: ledger.Pure}
		a.def.Intents["echo"] = Intent{Run: a.once(o, a.says, nil)}
	},
	"the result of Once": func(a *ailing) {
		o := &orchestrator.OnceOptions[shown]{Class: ledger.Idempotent}
		a.def.Intents["echo"] = Intent{Run: a.once(o, nil, a.says)}
	},
	"the result of Once says that it is not done": func(a *ailing) {
		o := &orchestrator.OnceOptions[shown]{Class: ledger.Idempotent}
		a.def.Intents["echo"] = Intent{Run: a.once(o, nil, func() error { return ledger.NotDone(a.says()) })}
	},
	"the recorded result of Once": func(a *ailing) {
		a.def.Intents["echo"] = Intent{Run: func(ctx context.Context, t *Turn) error {
			return a.watched(func() error {
				_, err := orchestrator.Once(ctx, t, "pay", func(context.Context, string) (unread, error) {
					return unread{a.says}, nil
				}, &orchestrator.OnceOptions[unread]{Class: ledger.Idempotent})
				if err == nil && !a.healed.Load() {
					err = errHarmless // it reads back nothing that misbehaves
				}
				return err
			})
		}}
	},
	"the arguments of Once": func(a *ailing) {
		o := &orchestrator.OnceOptions[shown]{Class: ledger.Idempotent, Args: shown{1, a.says}}
		a.def.Intents["echo"] = Intent{Run: a.once(o, nil, nil)}
	},
	"Verify": func(a *ailing) {
		o := &orchestrator.OnceOptions[shown]{
			Class:  ledger.Verifiable,
			Verify: func(context.Context, string) (shown, bool, error) { return shown{N: 1}, true, a.says() },
		}
		a.def.Intents["echo"] = Intent{Run: a.once(o, func() error {
			if a.healed.Load() {
				return nil
			}
			return errHarmless
		}, nil), Retry: retry.Policy{Attempts: 2}}
	},
	"Redact": func(a *ailing) {
		a.opts.Effects.Redact = func(e ledger.Effect) ledger.Effect { a.shouts(); return e }
		a.opts.Effects.SumKey = []byte("key")
		o := &orchestrator.OnceOptions[shown]{Class: ledger.Idempotent}
		a.def.Intents["echo"] = Intent{Run: a.once(o, nil, nil)}
	},
	"LogError": func(a *ailing) {
		a.opts.LogError = func(err error) string { a.shouts(); return err.Error() }
		a.def.Deliver = func(context.Context, *Result) error { return errHarmless } // which is logged
	},
	"Due": func(a *ailing) {
		a.opts.Compaction = orchestrator.Compaction{
			Keep: 1, Due: func(context.Context, orchestrator.Range) bool { a.shouts(); return true },
			Run: func(context.Context, orchestrator.Range) (u orchestrator.Usage, err error) { return u, nil },
		}
	},
	"Compaction.Run": func(a *ailing) {
		a.opts.Compaction = orchestrator.Compaction{
			Keep: 1, After: 1,
			Run: func(context.Context, orchestrator.Range) (u orchestrator.Usage, err error) { return u, a.says() },
		}
	},
	"Retry.Wait": func(a *ailing) {
		a.def.Intents["echo"] = Intent{
			Run: func(context.Context, *Turn) error {
				if a.healed.Load() {
					return nil
				}
				return errHarmless
			},
			Retry: retry.Policy{Attempts: 2, Wait: func(int) time.Duration { a.shouts(); return 0 }},
		}
	},
	"the reply of a Tool": func(a *ailing) { a.useTool(func(*Result) string { a.shouts(); return "" }, nil) },
	"the session of a Tool": func(a *ailing) {
		a.useTool(nil, func(context.Context) (string, error) { return "child", a.says() })
	},
	"the state of Record": func(a *ailing) {
		a.opts.TurnLog = new(turnlog.Memory)
		a.def.Intents["echo"] = Intent{Run: func(ctx context.Context, t *Turn) error {
			return a.watched(func() error { return t.Record(ctx, turnlog.LLMComplete, shown{1, a.says}) })
		}}
	},
	"the turn log":               func(a *ailing) { a.opts.TurnLog = a },
	"the turn log, at the start": func(a *ailing) { a.opts.TurnLog, a.atStart = a, true },
	"the turn log, in an intent that keeps it to itself": func(a *ailing) {
		a.opts.TurnLog = a
		a.def.Intents["echo"] = Intent{Run: func(ctx context.Context, t *Turn) error {
			return a.watched(func() error {
				_ = t.Record(ctx, turnlog.LLMComplete, 1)
				return nil
			})
		}}
	},
}

// useTool makes the bot call a child as a tool.
func (a *ailing) useTool(reply func(*Result) string, session func(context.Context) (string, error)) {
	var child *Bot
	a.def.Intents["echo"] = Intent{Run: func(ctx context.Context, _ *Turn) error {
		if child == nil {
			d := echo()
			d.Name = "child"
			var err error
			child, err = orchestrator.New(d, new(checkpoint.Memory), &Options{Logger: quiet()})
			if err != nil {
				return err
			}
		}
		return a.watched(func() error {
			_, err := child.Tool("ask", "", reply, session).Call(ctx, "call", json.RawMessage(`{"input":"a"}`))
			return err
		})
	}}
}

func (a *ailing) start(t *testing.T) *Bot {
	a.opts.Ledger, a.opts.Logger = a.ledger, slog.New(slog.NewTextHandler(io.Discard, nil))
	bot := a.world.Start(t, a.def, a.opts)
	ask := func(ev Event) { // a handler that asks what it gets; it may panic
		_ = fmt.Sprint(ev.Err)
		if ev.Err != nil && ev.Kind != orchestrator.IntentEnded {
			askAll(t, ev.Err)
		} else if ev.Err != nil {
			_ = ev.Err.Error() // the bot's own error
		}
	}
	bot.Subscribe(ask)
	return bot
}

// askAll asks an error all that can be asked. None of it may panic, or go on for ever.
func askAll(t *testing.T, err error) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("asking a %T panics: %v\n%s", err, v, debug.Stack())
		}
	}()
	if err == nil {
		return
	}
	if err.Error() == "" {
		t.Errorf("%T has no text", err)
	}
	_ = fmt.Sprintf("%v %+v %s %q", err, err, err, err)
	for _, target := range []error{
		orchestrator.ErrBusy, orchestrator.ErrIndeterminate, orchestrator.ErrTurnTimeout, ledger.ErrInDoubt,
		context.Canceled, io.EOF, errHarmless, (*apiError)(nil),
		isPanics{},
		badCompare{[]int{1}},
		errors.New("other"),
	} {
		_ = errors.Is(err, target)
	}
	if e, ok := errors.AsType[*orchestrator.Error](err); !ok || e == nil {
		t.Errorf("%v is no *Error", err)
	}
	if e, ok := errors.AsType[*orchestrator.InputError](err); ok {
		_ = e.Error()
	}
	if e, ok := errors.AsType[*orchestrator.DriftError](err); ok {
		_ = errors.Is(e, io.EOF) || e.Error() == ""
	}
	if e, ok := errors.AsType[*orchestrator.InDoubtError](err); ok {
		_ = e.Error()
	}
	if e, ok := errors.AsType[*orchestrator.PanicError](err); ok {
		_ = errors.Is(e, io.EOF) || e.Error() == ""
	}
	if e, ok := errors.AsType[*apiError](err); ok {
		_ = e.Error()
	}
	var timeout interface{ Timeout() bool }
	_ = errors.As(err, &timeout)
	_, _ = retry.IsPermanent(err), ledger.IsNotDone(err)
	if p := orchestrator.Public(err); p.Status < 200 || p.Text == "" {
		t.Errorf("%v is told as %+v", err, p)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(io.Discard, nil), slog.NewJSONHandler(io.Discard, nil)} {
		slog.New(h).Error("failed", "err", err)
	}
}

// Whatever a function of the bot returns or panics with, the process lives, the caller gets an error that it can ask,
// no effect that ran is told as failed, and the session serves the next input.
func TestForeignErrors(t *testing.T) {
	for place, ail := range places {
		for kind, err := range misbehaviours() {
			for _, panics := range []bool{false, true} {
				how := "returns"
				if panics {
					how = "panics with"
				}
				t.Run(place+"/"+how+"/"+kind, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { misbehave(t, ail, err, panics) })
				})
			}
		}
	}
}

func newAiling(ail func(*ailing), err error, panics bool) *ailing {
	a := &ailing{world: newWorld(), def: echo(), ledger: new(ledger.Memory), err: err, panics: panics}
	ail(a)
	return a
}

func misbehave(t *testing.T, ail func(*ailing), bad error, panics bool) {
	a := newAiling(ail, bad, panics)
	first := echo() // a turn for Migrate, and for Compaction
	if _, err := a.world.Start(t, first, Options{}).Execute(t.Context(), "s", Input{Text: "0"}, nil); err != nil {
		t.Fatal(err)
	}
	bot := a.start(t)
	call := &orchestrator.CallOptions{OnEvent: func(Event) { a.shouts() }}
	for _, id := range []string{"", "r", "r"} {
		res, err := bot.Execute(t.Context(), "s", Input{RequestID: id, Text: "a"}, call)
		if res == nil && err == nil {
			t.Fatal("neither a result nor an error")
		}
		askAll(t, err)
	}
	if _, err := bot.Recover(t.Context(), "s"); err != nil {
		askAll(t, err)
	}
	for e, err := range a.ledger.Effects(t.Context(), ledger.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.State == ledger.Failed {
			t.Errorf("an effect that ran is told as failed: %+v", e)
		}
	}
	a.healed.Store(true)
	time.Sleep(time.Hour) // pauses are over
	if _, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, &orchestrator.CallOptions{Force: true}); err != nil {
		t.Errorf("the next input: %v", err)
	}
	if a.leaked.Load() {
		t.Error("a panic has come out of a call of the engine")
	}
	if err := bot.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// What the caller knows of its own error is still found in it.
func TestForeignErrorsKeepIdentity(t *testing.T) {
	for name, err := range map[string]error{
		"bare":      errHarmless,
		"joined":    errors.Join(io.EOF, fmt.Errorf("x: %w", errHarmless)),
		"permanent": retry.Permanent(errHarmless),
		"not done":  ledger.NotDone(errHarmless),
		"beside":    errors.Join(isPanics{}, textPanics{}, wrapsItself{}, errHarmless, &plainError{7}),
		"in drift":  &orchestrator.DriftError{Err: errHarmless},
		"in doubt":  &orchestrator.InDoubtError{Err: errHarmless},
	} {
		for place, ail := range places {
			if place == "LogError" || strings.Contains(place, "espond") || strings.HasPrefix(place, "Redact") ||
				slices.Contains([]string{"Due", "Compaction.Run", "Deliver", "Migrate", "the turn log"}, place) {
				continue // Execute does not tell of it
			}
			t.Run(place+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					bot := newAiling(ail, err, false).start(t)
					_, got := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
					if place == "Deliver, and it is required" {
						_, got = bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
					}
					if got == nil || !errors.Is(got, errHarmless) {
						t.Errorf("got %v", got)
					}
				})
			})
		}
	}
}

// A function whose error ends the goroutine has ended its goroutine, and no other.
func TestForeignErrorEndsItsGoroutine(t *testing.T) {
	for _, place := range []string{
		"intent", "branches", "Route", "Evaluate", "Then", "Begin", "Merge", "Migrate", "Deliver", "History", "Once",
		"what Respond returns", "Compaction.Run", "Retry.Wait",
	} {
		for _, panics := range []bool{false, true} {
			t.Run(fmt.Sprint(place, panics), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { misbehave(t, places[place], endsWork{}, panics) })
			})
		}
	}
}

// A caller may end its context with any error as the cause.
func TestForeignCause(t *testing.T) {
	for kind, cause := range misbehaviours() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wait := func(ctx context.Context, _ *Turn) error { <-ctx.Done(); return context.Cause(ctx) }
				d := Def{Name: "b", Intents: Intents{"a": {Run: wait}, "b": {Run: wait}, "c": {Run: say("c")}}}
				d.Route = func(_ context.Context, t *Turn) (Next, error) {
					if t.Input.Text == "c" {
						return orchestrator.To("c"), nil
					}
					return orchestrator.To("a", "b"), nil
				}
				d.Begin = func(ctx context.Context, t *Turn) error {
					if t.Input.Text == "begin" {
						return wait(ctx, t)
					}
					return nil
				}
				var end context.CancelCauseFunc
				d.Deliver = func(context.Context, *Result) error { end(cause); return nil }
				summarized := 0
				summarize := func(context.Context, orchestrator.Range) (u orchestrator.Usage, err error) {
					summarized++
					return u, nil
				}
				bot := newWorld().Start(t, d, Options{
					OnInterrupted: orchestrator.AbandonFirst,
					Compaction:    orchestrator.Compaction{After: 1, Keep: 1, Run: summarize},
				})
				for _, text := range []string{"begin", "a", "before", "c", "c", "c"} {
					ctx, cancel := context.WithCancelCause(t.Context())
					end = cancel
					switch text {
					case "before":
						cancel(cause)
					case "begin", "a":
						time.AfterFunc(time.Second, func() { cancel(cause) })
					}
					_, err := bot.Execute(ctx, "s", Input{Text: text}, nil)
					if (text == "c") != (err == nil) {
						t.Errorf("%s: got %v", text, err)
					}
					if text == "a" && !errors.Is(err, context.Canceled) {
						t.Errorf("%s: got %v", text, err)
					}
					askAll(t, err)
				}
				if summarized == 0 {
					t.Error("nothing is summarized")
				}
				end = func(error) {}
				if _, err := bot.Execute(t.Context(), "s", Input{Text: "c"}, nil); err != nil {
					t.Errorf("the next input: %v", err)
				}
			})
		})
	}
}

// What is not an error of a function, but was once: no public type of error panics when it is asked.
func TestPublicOfForeignErrors(t *testing.T) {
	for kind, err := range misbehaviours() {
		for _, e := range []error{
			err, &orchestrator.Error{Op: "begin", Err: err}, &orchestrator.PanicError{Value: err},
		} {
			p := orchestrator.Public(e)
			if p.Status < 400 || p.Text == "" {
				t.Errorf("%s: %+v", kind, p)
			}
		}
		if text := (&orchestrator.PanicError{Value: err}).Error(); !strings.HasPrefix(text, "panic: ") {
			t.Errorf("%s: %q", kind, text)
		}
		for _, e := range []error{
			&orchestrator.Error{Op: "begin", Err: err}, &orchestrator.DriftError{Err: err},
			&orchestrator.InDoubtError{Err: err}, &orchestrator.StateError{Of: "state", Err: err},
		} {
			if e.Error() == "" {
				t.Errorf("%s: %T has no text", kind, e)
			}
		}
	}
}

// A state with a MarshalJSON of its own is foreign too.
func TestForeignState(t *testing.T) {
	type state struct{ V shown }
	type turn = orchestrator.Turn[state]
	for kind, err := range misbehaviours() {
		for _, panics := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, panics), func(t *testing.T) {
				a := &ailing{err: err, panics: panics}
				run := func(_ context.Context, t *turn) error {
					t.State.V = shown{t.Index, a.says}
					return nil
				}
				well := func(context.Context, *turn) error { return nil }
				d := orchestrator.Definition[state]{
					Name: "b", Intents: orchestrator.Intents[state]{"a": {Run: run}, "b": {Run: well}},
				}
				d.Route = func(_ context.Context, t *turn) (Next, error) {
					return orchestrator.To([]string{"a", "b"}[:1+t.Index%2]...), nil
				}
				o := &Options{Snapshots: new(snapshot.Memory), Logger: quiet()}
				bot, err := orchestrator.New(d, new(checkpoint.Memory), o)
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					_, err = bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
					if err == nil {
						t.Error("it settled")
					}
					askAll(t, err)
				}
				a.healed.Store(true)
				for range 2 {
					if _, err := bot.Execute(t.Context(), "s", Input{Text: "b"}, nil); err != nil {
						t.Errorf("the next input: %v", err)
					}
				}
			})
		}
	}
}
