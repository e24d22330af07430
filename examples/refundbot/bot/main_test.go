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

	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/examples/refundbot/internal/refundtest"
	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/examples/refundbot/setting"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A shop is where a test plays: stores, a provider, and the bot of a process.
type shop struct {
	t      *testing.T
	config setting.Config
	stores *setting.Stores
	pays   refundtest.Provider
	bot    *orchestrator.Orchestrator[bot.State]
	asked  int
}

// everywhere runs a test in each setting.
func everywhere(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Helper()
	t.Parallel()
	for _, setting := range refundtest.Settings {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			c := refundtest.Config(t, setting)
			s := &shop{t: t, config: c, stores: refundtest.Open(t, c), pays: refundtest.StartProvider(t)}
			s.bot = s.newBot(s.options())
			test(t, s)
		})
	}
}

// options are those of a bot that does not wait long.
func (s *shop) options() bot.Options {
	return bot.Options{
		Model: new(model.Scripted), Payments: s.pays.Client(), Shop: bot.DemoShop{}, Messages: s.stores.Messages(),
		Pause: 10 * time.Millisecond,
	}
}

// newBot returns version 1, as another process would have it.
func (s *shop) newBot(o bot.Options) *orchestrator.Orchestrator[bot.State] {
	return newBot(s, bot.Definition(o), o)
}

func newBot[S any](s *shop, d orchestrator.Definition[S], o bot.Options) *orchestrator.Orchestrator[S] {
	s.t.Helper()
	settings := s.stores.Options
	bot.Configure(&settings, o)
	settings.Logger = quiet()
	b, err := orchestrator.New(d, s.stores.Checkpoints(), &settings)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Second)
		defer cancel()
		if err := b.Shutdown(ctx); err != nil {
			s.t.Error(err)
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
func (s *shop) ask(session, text string) *orchestrator.Result[bot.State] {
	s.t.Helper()
	res, err := s.try(session, text)
	if err != nil {
		s.t.Fatalf("%q: %v", text, err)
	}
	return res
}

func (s *shop) try(session, text string) (*orchestrator.Result[bot.State], error) {
	s.asked++
	return s.bot.Execute(s.t.Context(), session, orchestrator.Input{
		RequestID: "request-" + strconv.Itoa(s.asked), Text: text,
	}, nil)
}

// says runs a turn whose reply has to hold a text.
func (s *shop) says(session, text, want string) *orchestrator.Result[bot.State] {
	s.t.Helper()
	res := s.ask(session, text)
	if !strings.Contains(res.State.Reply, want) {
		s.t.Errorf("to %q the bot says %q, want %q", text, res.State.Reply, want)
	}
	return res
}

// mode sets how the provider behaves.
func (s *shop) mode(m provider.Mode) { s.pays.SetMode(m) }

// flaky is a model that fails when it is told to.
type flaky struct {
	model.Model
	fails func(call string) bool
}

var errAway = errors.New("the model is away")

func (f flaky) Compose(ctx context.Context, p model.Prompt, emit func(string)) (string, model.Usage, error) {
	if f.fails("compose") {
		return "", model.Usage{}, errAway
	}
	return f.Model.Compose(ctx, p, emit)
}

// agreeing is a model that takes each text for a yes too.
type agreeing struct{ model.Model }

func (a agreeing) Classify(
	ctx context.Context, h []message.Message, text string,
) (model.Intent, model.Usage, error) {
	in, used, err := a.Model.Classify(ctx, h, text)
	in.Yes = true
	return in, used, err
}

// stuck is a model that never answers a call: its process is drained meanwhile.
type stuck struct {
	model.Model
	in      string
	reached chan struct{}
}

func (m stuck) Classify(ctx context.Context, h []message.Message, text string) (model.Intent, model.Usage, error) {
	if m.in == "classify" {
		close(m.reached)
		<-ctx.Done()
		return model.Intent{}, model.Usage{}, context.Cause(ctx)
	}
	return m.Model.Classify(ctx, h, text)
}

func (m stuck) Compose(ctx context.Context, p model.Prompt, emit func(string)) (string, model.Usage, error) {
	if m.in == "compose" {
		close(m.reached)
		<-ctx.Done()
		return "", model.Usage{}, context.Cause(ctx)
	}
	return m.Model.Compose(ctx, p, emit)
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
