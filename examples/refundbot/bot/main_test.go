package bot_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/examples/refundbot/internal/refundtest"
	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

func TestMain(m *testing.M) { testenv.Main(m) }

type outcome = agent.Outcome[bot.Memory]

// A shop is where a test plays: stores, a provider, and the agents of a process.
type shop struct {
	t      *testing.T
	stores *stores.Stores
	pays   refundtest.Provider
	bot    *bot.Bot[bot.Memory]
	asked  int
}

// everywhere runs a test in each setting.
func everywhere(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Helper()
	t.Parallel()
	for _, setting := range refundtest.Settings {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			all := refundtest.Open(t, refundtest.Config(t, setting))
			s := &shop{t: t, stores: all, pays: refundtest.StartProvider(t)}
			s.bot = s.newBot(s.options())
			test(t, s)
		})
	}
}

// options are those of agents that do not wait long.
func (s *shop) options() bot.Options {
	return bot.Options{
		Model: new(model.Scripted), Payments: s.pays.Client(), Shop: bot.DemoShop{}, Pause: 10 * time.Millisecond,
	}
}

// newBot returns version 1, as another process would have it.
func (s *shop) newBot(o bot.Options) *bot.Bot[bot.Memory] { return newBot(s, bot.New, o) }

func newBot[C any](
	s *shop, build func(bot.Options, agent.Stores, *orchestrator.Options) (*bot.Bot[C], error), o bot.Options,
) *bot.Bot[C] {
	s.t.Helper()
	settings := s.stores.Options
	settings.Logger = quiet()
	b, err := build(o, s.stores.Stores, &settings)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Second)
		defer cancel()
		for _, shut := range []func(context.Context) error{
			b.Concierge.Bot().Shutdown, b.Refunds.Bot().Shutdown, b.Desk.Bot().Shutdown,
		} {
			if err := shut(ctx); err != nil {
				s.t.Error(err)
			}
		}
	})
	return b
}

// quiet is a logger for turns that fail on purpose.
func quiet() *slog.Logger {
	if os.Getenv("LOG") != "" {
		return slog.Default()
	}
	return slog.New(slog.DiscardHandler)
}

// ask runs a turn that has to settle.
func (s *shop) ask(session, text string) *outcome {
	s.t.Helper()
	o, err := s.try(session, text)
	if err != nil || o.Status != agent.Completed {
		s.t.Fatalf("%q: %+v, %v", text, o, err)
	}
	return o
}

func (s *shop) try(session, text string) (*outcome, error) {
	s.asked++
	in := orchestrator.Input{RequestID: "request-" + strconv.Itoa(s.asked), Text: text}
	return s.bot.Refunds.Say(s.t.Context(), session, in, nil)
}

// says runs a turn whose reply has to hold a text.
func (s *shop) says(session, text, want string) *outcome {
	s.t.Helper()
	o := s.ask(session, text)
	if !strings.Contains(o.Text, want) {
		s.t.Errorf("to %q the bot says %q, want %q", text, o.Text, want)
	}
	return o
}

// waiting are the orders of a session that the desk is asked about, with the ids of the calls.
func (s *shop) waiting(session string) map[string]string {
	s.t.Helper()
	all := make(map[string]string)
	for o, err := range s.bot.Desk.Waiting(s.t.Context(), "") {
		if err != nil {
			s.t.Fatal(err)
		}
		if order, ok := strings.CutPrefix(o.Session, bot.CaseOf(session, "")); ok {
			all[order] = o.Pending[0].Call.ID
		}
	}
	return all
}

// decides answers for an order at the desk, and wants the customer to be told a text.
func (s *shop) decides(session, order string, answer agent.Answer, want string) {
	s.t.Helper()
	call := s.waiting(session)[order]
	if _, err := s.bot.Desk.Answer(s.t.Context(), bot.CaseOf(session, order), call, answer); err != nil {
		s.t.Fatal(err)
	}
	s.told(session, want)
}

// told does what the watch of a process does, and wants the newest reply to hold a text.
func (s *shop) told(session, want string) {
	s.t.Helper()
	for session, err := range s.bot.Refunds.Bot().Recoverable(s.t.Context(), true) {
		if err == nil {
			_, err = s.bot.Refunds.Bot().Recover(s.t.Context(), session)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if now, _, err := s.bot.Refunds.Get(s.t.Context(), session); err != nil || !strings.Contains(now.Output, want) {
		s.t.Errorf("the customer is told %q, %v, want %q", now.Output, err, want)
	}
}

// mode sets how the provider behaves.
func (s *shop) mode(m provider.Mode) { s.pays.SetMode(m) }

// A spy sees each request before its model, and may fail it.
type spy struct {
	agent.Model
	see func(ctx context.Context, r agent.Request) error
}

func (m spy) Reply(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
	if err := m.see(ctx, r); err != nil {
		return agent.Reply{}, err
	}
	return m.Model.Reply(ctx, r, token)
}

var errAway = errors.New("the model is away")

// seen reports whether what was said since the customer's last message has a result of a tool.
func seen(r agent.Request, tool string) bool {
	found := false
	for _, m := range r.Said {
		for _, b := range m.Blocks {
			c, ok := b.Call()
			found = m.Role != message.RoleUser && (found || ok && c.Name == tool)
		}
	}
	return found
}

// stuckShop never finds the customer.
type stuckShop struct {
	bot.Shop
	reached chan struct{}
}

func (s stuckShop) CustomerOf(ctx context.Context, _ string) (*bot.Customer, error) {
	close(s.reached)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}
