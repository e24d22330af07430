package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

var errAway = errors.New("connection lost")

// A weakInbox fails as its functions say. A nil function does not fail.
type weakInbox struct {
	inbox.Store
	items, item func() error
}

func failing(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

// Items fails behind each item.
func (s *weakInbox) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return func(yield func(inbox.Item, error) bool) {
		for it, err := range s.Store.Items(ctx, k, kind) {
			if !yield(it, err) {
				return
			}
			if err := failing(s.items); err != nil {
				yield(inbox.Item{}, err)
				return
			}
		}
	}
}

func (s *weakInbox) Item(ctx context.Context, k inbox.Key, kind inbox.Kind, id string) (inbox.Item, error) {
	if err := failing(s.item); err != nil {
		return inbox.Item{}, err
	}
	return s.Store.Item(ctx, k, kind, id)
}

// weakClaims fail as claim says.
type weakClaims struct {
	checkpoint.Store
	claim func() error
}

func (s *weakClaims) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	if err := s.claim(); err != nil {
		return c, err
	}
	return s.Store.Claim(ctx, k, r)
}

// weakSnapshots fail to save as save says.
type weakSnapshots struct {
	snapshot.Store
	save func() error
}

func (s *weakSnapshots) Save(ctx context.Context, r snapshot.Run) error {
	if err := s.save(); err != nil {
		return err
	}
	return s.Store.Save(ctx, r)
}

// A mess is an agent that pays without a key, with whatever goes wrong from the payment on.
type mess struct {
	paid    atomic.Int32
	trouble atomic.Bool
	later   func() error // of the inbox, when the trouble has ended
	stores  agent.Stores
	def     agent.Definition[none]
	options orchestrator.Options
}

func (m *mess) fails() error {
	if m.trouble.Load() {
		return errAway
	}
	return nil
}

func (m *mess) panics() {
	if m.trouble.Load() {
		panic("at the disco")
	}
}

// done is the result of the payment.
var done = regexp.MustCompile(`: (paid|it was done)`)

func (m *mess) pay(context.Context, string, refundArgs) (string, error) {
	m.paid.Add(1)
	m.trouble.Store(true)
	return "paid", nil
}

func (m *mess) reply(ctx context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
	if !done.MatchString(print(r.Said)) {
		return says("", call("", "refund", `{"order":"A"}`), call("", "lookup", `{"order":"A"}`),
			call("", "child", `{"input":"x"}`))
	}
	if m.trouble.Load() && m.options.Limits.TurnTimeout > 0 {
		<-ctx.Done()
		return agent.Reply{}, ctx.Err()
	}
	return says("done")
}

// What has happened in the world is not forgotten, whatever goes wrong behind it: the session goes on, and the model
// sees what was done.
func TestHappened(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, m *mess){
		"crash, then no inbox": func(_ *testing.T, m *mess) {
			m.stores.Snapshots = &weakSnapshots{m.stores.Snapshots, m.fails}
			m.stores.Inbox = &weakInbox{Store: m.stores.Inbox, item: func() error {
				if m.paid.Load() == 0 || m.trouble.Load() || m.later != nil {
					return nil
				}
				m.later = m.fails
				return errAway
			}}
		},
		"crash, and the result was redacted": func(_ *testing.T, m *mess) {
			m.stores.Snapshots = &weakSnapshots{m.stores.Snapshots, m.fails}
			m.options.Effects = orchestrator.Effects{
				SumKey: []byte(strings.Repeat("k", 32)), Redact: func(e ledger.Effect) ledger.Effect {
					e.Result = nil
					return e
				},
			}
		},
		"Prepare panics": func(_ *testing.T, m *mess) {
			m.def.Prepare = func(context.Context, *agent.State[none], *agent.Request) error { m.panics(); return nil }
		},
		"Tokens panics": func(_ *testing.T, m *mess) {
			m.def.Compact = &agent.Compaction{
				Above: 1000, Tokens: func(message.Message) int { m.panics(); return 1 },
			}
		},
		"model hangs": func(_ *testing.T, m *mess) { m.options.Limits.TurnTimeout = time.Minute },
		"lookup hangs": func(_ *testing.T, m *mess) {
			m.options.Limits.TurnTimeout = time.Minute
			m.def.Tools[1] = lookup(func(ctx context.Context, _ refundArgs) (string, error) {
				if !m.trouble.Load() {
					return "found", nil
				}
				<-ctx.Done()
				return "", ctx.Err()
			})
		},
		"child away": func(t *testing.T, m *mess) {
			st := m.stores
			st.Checkpoints = &weakClaims{st.Checkpoints, m.fails}
			child := newAgent(t, agent.Definition[none]{Name: "child", Model: agent.ModelFunc(
				func(context.Context, agent.Request, func(string)) (agent.Reply, error) { return says("hello") },
			)}, st)
			m.def.Tools = append(m.def.Tools, agent.ChildTool(child, ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mess{stores: agent.InMemory(), options: *quiet}
				m.def = agent.Definition[none]{
					Name: "support", Model: agent.ModelFunc(m.reply), Tools: []agent.Tool{
						agent.Effect[refundArgs, string]{Name: "refund", Run: m.pay}.Tool(),
						lookup(func(context.Context, refundArgs) (string, error) { return "found", nil }),
					},
				}
				m.def.Retry.Attempts = 1
				prepare(t, m)
				m.run(t)
			})
		})
	}
}

func (m *mess) run(t *testing.T) {
	a, err := agent.New(m.def, m.stores, &m.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Bot().Shutdown(context.WithoutCancel(t.Context())) })
	o, err := a.Say(t.Context(), "s", orchestrator.Input{RequestID: "r", Text: "go"}, nil)
	for n := 0; n < 4 && (err != nil || o.Text != "done"); n++ {
		t.Logf("%+v, %v", o, err)
		m.trouble.Store(false)
		time.Sleep(time.Hour)
		if err != nil {
			o, err = a.Say(t.Context(), "s", orchestrator.Input{RequestID: "r", Text: "go"}, nil)
		} else {
			o, err = a.Continue(t.Context(), "s", nil)
		}
	}
	settled(t, o, err)
	if got := told(t, a, "s"); m.paid.Load() != 1 || len(done.FindAllString(got, -1)) != 1 {
		t.Errorf("paid %d times, %s, said %s", m.paid.Load(), o.Status, got)
	}
}

// Messages that steer are all said, each once and in order, although the inbox breaks behind the first one, or there
// are more than one look takes.
func TestSteerMuch(t *testing.T) {
	for name, c := range map[string]struct {
		messages, bytes int
		broken          bool
	}{
		"broken": {messages: 2, broken: true}, "many": {messages: 70}, "large": {messages: 45, bytes: 100 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, m := agent.InMemory(), &slow{may: make(chan struct{})}
				if c.broken {
					looked := 0
					st.Inbox = &weakInbox{Store: st.Inbox, items: func() error {
						if looked++; looked == 1 {
							return errAway
						}
						return nil
					}}
				}
				a := m.agent(t, st, agent.IntoTurn)
				defer func() { _ = a.Bot().Shutdown(t.Context()) }()
				all, want := []<-chan said{saying(t, a, "r", "go")}, ""
				for i := range c.messages {
					text := fmt.Sprintf("<%d>", i)
					want += text
					all = append(all, saying(t, a, text, text+strings.Repeat("x", c.bytes)))
					time.Sleep(time.Millisecond) // so the inbox has them in order
				}
				close(m.may)
				for _, turn := range all {
					if got := <-turn; got.err != nil {
						t.Error(got.err)
					}
				}
				got := strings.Join(regexp.MustCompile(`<\d+>`).FindAllString(told(t, a, "s"), -1), "")
				if got != want || len(m.shown) < 3 && !c.broken {
					t.Errorf("said %s; the model was asked %d times", got, len(m.shown))
				}
			})
		})
	}
}

// Without an Inbox, a stop of this process counts also if it comes while neither the model nor a tool is at work.
func TestStopWithoutInbox(t *testing.T) {
	w, st := new(shop), agent.InMemory()
	var a *agent.Agent[none]
	stopped := false
	st.Inbox, st.Snapshots = nil, &weakSnapshots{st.Snapshots, func() error {
		if stopped {
			return nil
		}
		stopped = true
		return a.Stop(t.Context(), "s", "", "enough")
	}}
	a = newAgent(t, w.Definition(), st)
	if o := say(t, a, "s", "go"); o.Status != agent.Interrupted || w.Lookups.Load() != 0 {
		t.Errorf("%+v, %d lookups", o, w.Lookups.Load())
	}
}

// A process dies in an effect, and the next one cannot ask whether to stop. The run stays in flight: a turn that failed
// would forget the effect, and another turn would do it again.
func TestEffectUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, in := agent.InMemory(), orchestrator.Input{RequestID: "r", Text: "go"}
		process, die := context.WithCancel(t.Context())
		keys := make(map[string]bool)
		d := agent.Definition[none]{
			Model: answers(call("", "pay", `{"order":"A"}`)),
			Tools: []agent.Tool{agent.Effect[refundArgs, string]{
				Name: "pay", Class: ledger.Idempotent,
				Run: func(ctx context.Context, key string, _ refundArgs) (string, error) {
					keys[key] = true
					die()
					return "paid", ctx.Err()
				},
			}.Tool()},
		}
		if _, err := newAgent(t, d, st).Say(process, "s", in, nil); err == nil {
			t.Fatal("the process did not die")
		}
		away := st
		away.Inbox = &weakInbox{Store: st.Inbox, item: func() error { return errAway }}
		_, err := newAgent(t, d, away).Say(t.Context(), "s", in, nil)
		if !errors.Is(err, orchestrator.ErrIndeterminate) {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		o, err := newAgent(t, d, st).Say(t.Context(), "s", in, nil)
		if settled(t, o, err); o.Text != "paid" || len(keys) != 1 {
			t.Errorf("%+v, paid for %v", o, keys)
		}
	})
}
