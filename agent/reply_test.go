package agent_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

// A step is what a model does in one call.
type step = agent.ModelFunc

// steps returns a model that does one step in each call, and the last one again and again. It counts the calls.
func steps(calls *atomic.Int32, all ...step) agent.ModelFunc {
	var n atomic.Int32
	return func(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
		calls.Add(1)
		return all[min(int(n.Add(1)), len(all))-1](ctx, r, token)
	}
}

// fails returns a step that says something, and fails. It costs 3 cents.
func fails(said string, err error) step {
	return func(_ context.Context, _ agent.Request, token func(string)) (agent.Reply, error) {
		token(said)
		return agent.Reply{Usage: orchestrator.Usage{Input: 1, Cost: 0.03}}, err
	}
}

// replies returns a step that says a text, and costs what says costs.
func replies(text string) step {
	return func(_ context.Context, _ agent.Request, token func(string)) (agent.Reply, error) {
		token(text)
		return says(text)
	}
}

func reply(r agent.Reply, err error) step {
	return func(context.Context, agent.Request, func(string)) (agent.Reply, error) { return r, err }
}

func costs(u orchestrator.Usage) step {
	r, err := says("hello")
	r.Usage = u
	return reply(r, err)
}

// hangs does not return before its context ends, and deaf not before an hour has passed.
func hangs(ctx context.Context, _ agent.Request, token func(string)) (agent.Reply, error) {
	token("so ")
	<-ctx.Done()
	return agent.Reply{}, ctx.Err()
}

func deaf(_ context.Context, _ agent.Request, token func(string)) (agent.Reply, error) {
	token("so ")
	time.Sleep(time.Hour)
	token("late")
	return says("late")
}

// late says something after it has returned.
func late(_ context.Context, _ agent.Request, token func(string)) (agent.Reply, error) {
	go func() {
		for range 100 {
			token("late")
			runtime.Gosched()
		}
		time.Sleep(time.Second)
		token("late")
	}()
	return agent.Reply{}, errModel
}

// panics fails in its own way.
func panics(context.Context, agent.Request, func(string)) (agent.Reply, error) { panic(errModel) }

func exits(context.Context, agent.Request, func(string)) (agent.Reply, error) {
	runtime.Goexit()
	return agent.Reply{}, nil
}

type all = []step

// A replyCase is a turn whose model fails or misbehaves in its first calls.
type replyCase struct {
	models  []all         // several are a Fallback
	most    float64       // MaxCost
	times   int           // Attempts, if not 4
	before  time.Duration // the deadline of the caller
	calls   int32
	took    time.Duration
	err     string // in the error of the turn; else it has settled
	reason  agent.Reason
	heard   string  // but for what is void; "hello" if it is ""
	cost    float64 // of the session; 0.01 for the reply that comes in the end is added
	failing int     // lines of the log
}

// replyCases are what becomes of such turns.
func replyCases() map[string]replyCase {
	type usage = orchestrator.Usage
	after := func(d time.Duration) step { return fails("", retry.After(errModel, d)) }
	final, wild, busy := fails("", retry.Permanent(errModel)), fails("", new(wildError)), fails("", errModel)
	cut := reply(agent.Reply{Cut: true}, nil)
	hello := replies("hello")
	return map[string]replyCase{
		"at once": {models: []all{{hello}}, calls: 1},
		"third attempt": {
			models: []all{{fails("he", errModel), fails("hel", errModel), hello}},
			calls:  3, took: 2 * time.Second, cost: 0.06, failing: 2,
		},
		"used up": {
			models: []all{{busy}},
			calls:  4, took: 3 * time.Second, err: "agent: the model: 500", failing: 4,
		},
		"once":  {models: []all{{busy, hello}}, times: 1, calls: 1, err: "500", failing: 1},
		"final": {models: []all{{final, hello}}, calls: 1, err: "500", failing: 1},
		"too long": {
			models: []all{{fails("", agent.ErrTooLong)}},
			calls:  1, err: "longer than the model takes", failing: 1,
		},
		"after": {
			models: []all{{after(30 * time.Second), hello}},
			calls:  2, took: 30 * time.Second, cost: 0.03, failing: 1,
		},
		"after less":     {models: []all{{after(0), hello}}, calls: 2, took: time.Second, cost: 0.03, failing: 1},
		"after too long": {models: []all{{after(61 * time.Second), hello}}, calls: 1, err: "500", failing: 1},
		"deadline": {
			models: []all{{after(30 * time.Second)}}, before: 29 * time.Second,
			calls: 1, err: "the time of the turn ends within a pause of 30s", failing: 1,
		},
		"within the deadline": {
			models: []all{{after(30 * time.Second), hello}}, before: 31 * time.Second,
			calls: 2, took: 30 * time.Second, cost: 0.03, failing: 1,
		},
		"panic":       {models: []all{{panics, hello}}, calls: 1, err: "panic: 500", failing: 1},
		"exits":       {models: []all{{exits, hello}}, calls: 1, err: "has ended its goroutine", failing: 1},
		"nothing":     {models: []all{{reply(agent.Reply{}, nil), hello}}, calls: 2, took: time.Second, failing: 1},
		"cut":         {models: []all{{cut, hello}}, calls: 1, err: "cut off", failing: 1},
		"wild":        {models: []all{{wild, hello}}, calls: 2, took: time.Second, cost: 0.03, failing: 1},
		"late tokens": {models: []all{{late, hello}}, calls: 2, took: time.Second, failing: 1},
		"hangs":       {models: []all{{hangs, hello}}, calls: 2, took: 10*time.Minute + time.Second, failing: 1},
		"deaf": {
			models: []all{{deaf, hello}},
			calls:  1, took: 10*time.Minute + 10*time.Second, err: "goes on although", failing: 1,
		},

		"budget": {
			models: []all{{busy}},
			most:   0.05, calls: 2, took: time.Second, reason: agent.Budget, cost: 0.06, failing: 2,
		},
		"costs": {
			models: []all{{final}},
			most:   0.05, calls: 1, reason: agent.ModelFailed, cost: 0.03, failing: 1,
		},
		"costs NaN": {models: []all{{costs(usage{Cost: math.NaN()})}}, calls: 1, heard: "-", cost: -0.01},
		"costs Inf": {models: []all{{costs(usage{Cost: math.Inf(1)})}}, most: 1, calls: 1, heard: "-", cost: -0.01},
		"gives back": {
			models: []all{{costs(usage{Input: -5, Cost: -7})}},
			most:   1, calls: 1, heard: "-", cost: -0.01,
		},
		"costs a lot": {
			models: []all{{costs(usage{Output: math.MaxInt, Cost: math.MaxFloat64})}},
			calls:  1, heard: "-", cost: -0.01,
		},
		"second model": {
			models: []all{{fails("Guten", retry.Permanent(errModel))}, {hello}},
			calls:  2, cost: 0.03, failing: 1,
		},
		"both, then the second again": {
			models: []all{{final}, {after(5 * time.Second), hello}},
			calls:  3, took: 5 * time.Second, cost: 0.06, failing: 2,
		},
		"the sooner": {
			models: []all{{after(50 * time.Second), hello}, {after(20 * time.Second)}},
			calls:  3, took: 20 * time.Second, cost: 0.06, failing: 2,
		},
		"no model": {
			models: []all{{final}, {panics}},
			calls:  2, err: "model 1: 500; model 2: panic: 500", failing: 2,
		},
		"the first hangs": {models: []all{{hangs}, {hello}}, calls: 2, took: 10 * time.Minute, failing: 1},
		"the first is deaf": {
			models: []all{{deaf}, {hello}},
			calls:  2, took: 10*time.Minute + 10*time.Second, failing: 1,
		},
		"budget between them": {
			models: []all{{busy}, {hello}},
			most:   0.02, calls: 1, reason: agent.Budget, cost: 0.03, failing: 1,
		},
	}
}

func TestReplies(t *testing.T) {
	for name, c := range replyCases() {
		t.Run(name, func(t *testing.T) { synctest.Test(t, c.run) })
	}
}

func (c replyCase) run(t *testing.T) {
	var calls atomic.Int32
	var models []agent.Model
	for _, m := range c.models {
		models = append(models, steps(&calls, m...))
	}
	d := agent.Definition[none]{
		Name: "bot", Model: agent.Fallback(models...), MaxCost: c.most, Retry: retry.Fixed(4, time.Second),
	}
	if c.times > 0 {
		d.Retry.Attempts = c.times
	}
	log := new(lines)
	opts := &orchestrator.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}
	a, err := agent.New(d, agent.InMemory(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.Bot().Shutdown(context.WithoutCancel(t.Context()))
		time.Sleep(2 * time.Hour) // for those that are deaf
	})
	ctx := t.Context()
	if c.before > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.before)
		defer cancel()
	}
	var ear ear
	begun := time.Now()
	o, err := a.Say(ctx, "s", agent.Text("hi"), &orchestrator.CallOptions{OnEvent: ear.hear})
	if took := time.Since(begun); took.Round(time.Second) != c.took {
		t.Errorf("it took %v, want %v", took, c.took)
	}
	failing := strings.Count(log.String(), `msg="model failed"`)
	if calls.Load() != c.calls || failing != c.failing {
		t.Errorf("%d calls, want %d; %d lines, want %d:\n%s", calls.Load(), c.calls, failing, c.failing, log)
	}
	if c.err == "" {
		c.settles(t, a, settled(t, o, err), ear.text)
		return
	}
	if err == nil || !strings.Contains(err.Error(), c.err) {
		t.Errorf("%v, want %q", err, c.err)
	}
	if regexp.MustCompile(`\b500\b`).MatchString(log.String()) {
		t.Errorf("the log repeats what a model has said:\n%s", log)
	}
}

func (c replyCase) settles(t *testing.T, a *agent.Agent[none], o *agent.Outcome[none], heard string) {
	want, cost := "hello", c.cost+0.01
	if c.heard != "" {
		want = strings.Trim(c.heard, "-")
	}
	if c.reason != "" {
		want, cost = "", c.cost
	}
	s, _ := get(t, a, "s")
	if o.Reason != c.reason || heard != want || math.Abs(s.Spent.Cost-cost) > 1e-9 || s.Step > 1 {
		t.Errorf("%s, heard %q, want %q; %+v, want %v; %d steps", o.Reason, heard, want, s.Spent, cost, s.Step)
	}
	told(t, a, "s")
}

// An ear hears the tokens of a turn, but for those that are void.
type ear struct{ text string }

func (e *ear) hear(ev orchestrator.Event) {
	if ev.Kind == orchestrator.IntentStarted && ev.Attempt > 1 {
		e.text = ""
	}
	e.text += ev.Delta
}

// lines is a log.
type lines struct {
	mu  sync.Mutex // protects following field
	all bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// Stop ends a pause and a model at once. A model that does not hear it is left behind after a while.
func TestStopBetweenAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		model step
		text  string
		took  time.Duration
	}{
		"pause": {fails("void", retry.After(errModel, time.Minute)), "", 5 * time.Second},
		"hangs": {hangs, "so ", 5 * time.Second},
		"deaf":  {deaf, "so ", 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := new(atomic.Int32)
				d := agent.Definition[none]{Retry: retry.Fixed(9, 0)}
				d.Model = agent.Fallback(steps(calls, c.model), c.model)
				if name == "pause" {
					d.Model = steps(calls, c.model)
				}
				a := newAgent(t, d, agent.InMemory())
				t.Cleanup(func() { time.Sleep(2 * time.Hour) })
				time.AfterFunc(5*time.Second, func() {
					if err := a.Stop(t.Context(), "s", "", "enough"); err != nil {
						t.Error(err)
					}
				})
				begun := time.Now()
				o := say(t, a, "s", "hi")
				took := time.Since(begun)
				if o.Status != agent.Interrupted || o.Text != c.text || calls.Load() != 1 || took != c.took {
					t.Errorf("%+v after %v and %d calls", o, took, calls.Load())
				}
			})
		})
	}
}

// A Fallback within another Model asks the next one unless words would have to be taken back. The agent asks again.
func TestWrappedFallback(t *testing.T) {
	final := retry.Permanent(errModel)
	for name, c := range map[string]struct {
		first, second []step
		calls         int32
		err           string
	}{
		"silent":     {[]step{fails("", final)}, []step{replies("hello")}, 2, ""},
		"panics":     {[]step{panics}, []step{replies("hello")}, 2, ""},
		"has spoken": {[]step{fails("Gut", errModel)}, []step{replies("hello")}, 4, "model 1: 500"},
		"first final, second not": {
			[]step{fails("", final)}, []step{fails("", retry.After(errModel, time.Second)), replies("hello")}, 4, "",
		},
		"both final": {[]step{fails("", final)}, []step{fails("", final)}, 2, "model 1: 500; model 2: 500"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := new(atomic.Int32)
				inner := agent.Fallback(agent.Fallback(steps(calls, c.first...)), steps(calls, c.second...))
				a := newAgent(t, agent.Definition[none]{
					Model: agent.ModelFunc(inner.Reply), Retry: retry.Fixed(4, time.Second),
				}, agent.InMemory())
				var ear ear
				o, err := a.Say(t.Context(), "s", agent.Text("hi"), &orchestrator.CallOptions{OnEvent: ear.hear})
				switch {
				case calls.Load() != c.calls:
					t.Errorf("%d calls, want %d", calls.Load(), c.calls)
				case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
					t.Errorf("%v, want %q", err, c.err)
				case c.err == "" && (err != nil || ear.text != "hello" || o.Usage.Cost < 0.009):
					t.Errorf("%+v, %v, heard %q", o, err, ear.text)
				}
			})
		})
	}
}

// After a tool has run, an input that is too long settles the turn. The reason tells it from other failures.
func TestTooLong(t *testing.T) {
	paid, calls := new(atomic.Int32), new(atomic.Int32)
	tooLong := agent.HTTPError(errors.New("payload"), 413, nil)
	a := newAgent(t, agent.Definition[none]{
		Model: steps(calls, answers(call("c", "refund", `{"order":"A"}`)), reply(agent.Reply{}, tooLong)),
		Tools: []agent.Tool{pay(paid, ledger.Ask).Tool()}, Retry: retry.Fixed(9, 0),
	}, agent.InMemory())
	o := say(t, a, "s", "go")
	if o.Status != agent.Failed || o.Reason != agent.TooLong || calls.Load() != 2 || paid.Load() != 1 {
		t.Errorf("%+v after %d calls", o, calls.Load())
	}
}

// The log has the status of a response, which says nothing of what was said. It has the text only if logs may have it.
func TestFailedModelIsLogged(t *testing.T) {
	refused := agent.HTTPError(errors.New("payload"), 401, nil)
	for name, c := range map[string]struct {
		level slog.Level
		opts  orchestrator.Options
		texts int // lines with the text of the error
	}{
		"info":   {},
		"debug":  {level: slog.LevelDebug, texts: 2},
		"option": {opts: orchestrator.Options{LogError: error.Error}, texts: 2},
		"redact": {
			level: slog.LevelDebug,
			opts: orchestrator.Options{
				Effects: orchestrator.Effects{
					Redact: func(e ledger.Effect) ledger.Effect { return e }, SumKey: []byte("secret"),
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			log, paid := new(lines), new(atomic.Int32)
			c.opts.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: c.level}))
			pays := answers(call("c", "refund", `{"order":"A"}`))
			model := steps(new(atomic.Int32), pays, reply(agent.Reply{}, refused))
			a, err := agent.New(agent.Definition[none]{
				Name: "bot", Model: model, Tools: []agent.Tool{pay(paid, ledger.Ask).Tool()},
			}, agent.InMemory(), &c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if o := say(t, a, "s", "go"); o.Reason != agent.ModelFailed {
				t.Errorf("%+v", o)
			}
			all := log.String()
			if strings.Count(all, "again=false status=401 err=") != 1 || strings.Count(all, "payload") != c.texts ||
				!strings.Contains(all, "turn settles as failed") {
				t.Error(all)
			}
		})
	}
}

// What the response of a server says.
func TestHTTPError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const none = time.Duration(-1)
		head := func(name, value string) http.Header { return http.Header{name: {value}} }
		at := func(in time.Duration) http.Header {
			return head("Retry-After", time.Now().Add(in).UTC().Format(http.TimeFormat))
		}
		for name, c := range map[string]struct {
			status  int
			head    http.Header
			final   bool
			after   time.Duration
			tooLong bool
		}{
			"400":           {status: 400, final: true, after: none},
			"401, after":    {status: 401, head: head("Retry-After", "3"), final: true, after: none},
			"404":           {status: 404, final: true, after: none},
			"408":           {status: 408, after: none},
			"409":           {status: 409, after: none},
			"413":           {status: 413, after: none, tooLong: true},
			"425":           {status: 425, after: none},
			"429":           {status: 429, after: none},
			"429, seconds":  {status: 429, head: head("Retry-After", "20"), after: 20 * time.Second},
			"429, decimals": {status: 429, head: head("Retry-After", "1.5"), after: 1500 * time.Millisecond},
			"429, date":     {status: 429, head: at(time.Hour), after: time.Hour},
			"429, past":     {status: 429, head: at(-time.Hour)},
			"429, ms":       {status: 429, head: head("Retry-After-Ms", "250"), after: 250 * time.Millisecond},
			"429, for ever": {status: 429, head: head("Retry-After", "1e99"), after: math.MaxInt64},
			"429, no":       {status: 429, head: head("X-Should-Retry", "false"), final: true, after: none},
			"400, yes":      {status: 400, head: head("X-Should-Retry", "true"), after: none},
			"500":           {status: 500, after: none},
			"503, negative": {status: 503, head: head("Retry-After", "-4"), after: none},
			"503, NaN":      {status: 503, head: head("Retry-After", "NaN"), after: none},
			"529, nonsense": {status: 529, head: head("Retry-After", "soon"), after: none},
		} {
			err := agent.HTTPError(errModel, c.status, c.head)
			after, ok := retry.AfterOf(err)
			if !ok {
				after = none
			}
			if !errors.Is(err, errModel) || retry.IsPermanent(err) != c.final || after != c.after ||
				errors.Is(err, agent.ErrTooLong) != c.tooLong {
				t.Errorf("%s: %v, final %t, after %v", name, err, retry.IsPermanent(err), after)
			}
		}
		if err := agent.HTTPError(nil, 500, nil); err != nil {
			t.Error(err)
		}
	})
}
