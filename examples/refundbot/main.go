// Refundbot is a support bot that refunds orders, with a page to talk to it and to look inside.
//
//	go run ./examples/refundbot
//
// Without any setting it keeps all in an SQLite file, has a scripted model, and demonstrates what happens when
// processes die: see demo.go. With DATABASE_URL it is one ordinary process of a service. This file is such a process,
// to be copied.
//
// The environment:
//
//	DATABASE_URL       a PostgreSQL, which then has everything
//	REDIS_URL          a Redis beside it, which then has the runs, the streams and the locks;
//	                   REDIS_PREFIX begins its keys
//	OPENAI_API_KEY     a real model; also OPENAI_BASE_URL and OPENAI_MODEL
//	ANTHROPIC_API_KEY  another one; also ANTHROPIC_BASE_URL and ANTHROPIC_MODEL
//	PROVIDER_URL       the payment provider; without it the process starts one for itself
//	REFUNDBOT_DESK     the word with which the desk signs in; without it the process makes one, and prints it
//	REFUNDBOT_KEY      signs the cookies, at least 16 bytes, the same for all processes of a service; without it
//	                   nobody is signed in any more when the process has ended
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/examples/refundbot/internal/loopback"
	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/models/anthropic"
	"github.com/holdfast-go/holdfast/models/openai"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/serve"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A config holds the flags and the environment.
type config struct {
	addr    string
	migrate bool
	version int
	drain   time.Duration
	grace   time.Duration
	pace    time.Duration
	ttl     time.Duration
	logs    slog.Level
	stores  stores.Config
	// demo and tour say that this process is no service: see demo.go and tour.go.
	demo, tour bool

	provider string
	people   *signer
	env      func(string) string
}

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

// The statuses with which the program ends.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // the flags or the environment are wrong: starting again does not help
)

// run is main. It returns the status of the process.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	c, err := parse(args, env, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage // package flag has said why
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: c.logs})))
	if err := os.MkdirAll(c.stores.Dir, 0o755); err != nil {
		fmt.Fprintln(stderr, "refundbot:", err)
		return exitFailed
	}
	what := runOne
	switch {
	case c.tour:
		what = tour
	case c.demo:
		what = demonstrate
	}
	err = what(withParent(ctx, env), c, stdout)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "refundbot:", strings.Join(strings.Fields(err.Error()), " "))
	if errors.Is(err, errConfig) {
		return exitUsage
	}
	return exitFailed
}

func parse(args []string, env func(string) string, stderr io.Writer) (c config, err error) {
	c.env, c.provider = env, env("PROVIDER_URL")
	c.stores.DatabaseURL = env("DATABASE_URL")
	c.stores.RedisURL, c.stores.RedisPrefix = env("REDIS_URL"), env("REDIS_PREFIX")
	c.people = &signer{[]byte(cmp.Or(env(keyEnv), rand.Text())), cmp.Or(env(wordEnv), rand.Text())}
	f := flag.NewFlagSet("refundbot", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&c.addr, "addr", "127.0.0.1:8080", "`address` to listen on")
	f.StringVar(&c.stores.Dir, "data", ".", "`folder` of the SQLite file, and of the payments")
	f.BoolVar(&c.migrate, "migrate", true, "bring the tables up to date at start; otherwise they are only checked")
	f.BoolVar(&c.stores.Newer, "newer", false, "serve although a later version has changed the schema: for a rollback")
	set := f.String("migrations", "", "`app`: the tables of the stores belong to the application's own migrations")
	f.IntVar(&c.version, "bot", 1, "`version` of the bot: 1 or 2")
	f.DurationVar(&c.drain, "drain-timeout", 30*time.Second,
		"how long the first requests wait for the turns left behind")
	f.DurationVar(&c.grace, "grace", 20*time.Second, "how long turns may go on when the process has to end")
	f.DurationVar(&c.pace, "pace", 0, "pause before each decision of the bot, for those who watch")
	f.DurationVar(&c.ttl, "approval", 24*time.Hour, "how long a person may take to approve a refund")
	f.TextVar(&c.logs, "log", slog.LevelWarn, "`level` of the log")
	f.BoolVar(&c.demo, "demo", c.stores.DatabaseURL == "", "serve by two processes that can be killed on the page")
	f.BoolVar(&c.tour, "tour", false, "kill processes in the terminal, and show what becomes of a refund")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	switch c.stores.Own = *set == "app"; {
	case f.NArg() > 0:
		err = fmt.Errorf("it takes no argument: %q", f.Arg(0))
	case *set != "" && !c.stores.Own:
		err = fmt.Errorf("-migrations is app or not set: %q", *set)
	case c.version != 1 && c.version != 2:
		err = fmt.Errorf("-bot is 1 or 2: %d", c.version)
	case len(c.people.key) < 16:
		err = fmt.Errorf("%s has less than 16 bytes", keyEnv)
	}
	if err != nil {
		fmt.Fprintln(stderr, "refundbot:", err)
	}
	return c, err
}

// The environment of people who sign in.
const (
	keyEnv  = "REFUNDBOT_KEY"
	wordEnv = "REFUNDBOT_DESK"
)

// announce prints where the program is, and then where the desk is, with its word if it was made up.
func (c config) announce(stdout io.Writer, url string) error {
	text := fmt.Sprintf("refundbot is at %[1]s\nthe desk is at %[1]s/desk/", url)
	if c.env(wordEnv) == "" {
		text += " and signs in with the word " + c.people.word
	}
	text += "\n"
	_, err := io.WriteString(stdout, text)
	return err
}

// errConfig says that the environment is wrong: trying again does not help.
var errConfig = errors.New("bad configuration")

// open opens the stores. A server that is down is no error yet.
func (c config) open() (*stores.Stores, error) {
	if c.stores.DatabaseURL == "" && c.stores.RedisURL != "" {
		return nil, fmt.Errorf("%w: REDIS_URL needs DATABASE_URL", errConfig)
	}
	all, err := stores.Open(c.stores)
	if err != nil && c.stores.DatabaseURL != "" {
		err = fmt.Errorf("%w: DATABASE_URL or REDIS_URL: %w", errConfig, err)
	}
	return all, err
}

// runOne is one process of a service.
func runOne(ctx context.Context, c config, stdout io.Writer) error {
	m, name, err := c.model()
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	all, err := c.open()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	payments, stop, err := c.payments(ctx)
	if err != nil {
		return errors.Join(err, all.Close(), listener.Close())
	}
	options := bot.Options{
		Model: paced(m, c.pace), Payments: payments, Shop: bot.DemoShop{}, ApprovalTTL: c.ttl, Bind: true,
	}
	a := &app{stores: all, payments: payments, model: name, version: c.version, people: c.people}
	service := serve.Service{
		Listener: listener,
		Prepare:  func(ctx context.Context) error { return all.Prepare(ctx, c.migrate) },
		Timeouts: serve.Timeouts{Drain: c.drain, Grace: c.grace},
		Sweeps:   []func(context.Context, int) (int, error){all.Sweep},
		Background: []func(context.Context) error{func(context.Context) error {
			return c.announce(stdout, "http://"+listener.Addr().String())
		}},
		Close: func() error { return errors.Join(stop(), all.Close()) },
	}
	if c.version == 2 {
		b, err := bot.New2(options, all.Stores, &all.Options)
		return serveBot(ctx, a, service, b, err)
	}
	b, err := bot.New(options, all.Stores, &all.Options)
	return serveBot(ctx, a, service, b, err)
}

// serveBot serves the agents of one version.
func serveBot[C any](ctx context.Context, a *app, service serve.Service, b *bot.Bot[C], err error) error {
	if err != nil {
		return errors.Join(err, service.Listener.Close(), service.Close())
	}
	may := a.people.authorize
	talk := turnhttp.Options[agent.State[C]]{Authorize: may, Reply: b.ReplyOf, OnError: logError}
	refunds := agent.Handler(b.Refunds, talk)
	concierge := agent.Handler(b.Concierge, turnhttp.Options[agent.State[struct{}]]{Authorize: may, OnError: logError})
	desk := turnhttp.Options[agent.State[struct{}]]{Authorize: a.people.deskOnly, OnError: logError}
	// One that calls another comes first.
	service.Bots = []serve.Bot{b.Concierge.Bot(), b.Refunds.Bot(), b.Desk.Bot()}
	service.Handler = a.handler(b.Desk, refunds, concierge, agent.Handler(b.Desk, desk))
	if loopback.Named(service.Listener.Addr().String()) {
		service.Handler = loopback.Only(service.Handler)
	}
	service.Background = append(service.Background,
		func(ctx context.Context) error { return agent.Answers(ctx, b.Desk, desk) }, // those whose process has died
		func(ctx context.Context) error { // customers hear soon that nobody has agreed in time
			for pause(ctx, time.Second) == nil {
				if _, err := b.Desk.Expire(ctx, 0); err != nil && ctx.Err() == nil {
					slog.WarnContext(ctx, "approvals cannot expire", "err", err)
				}
			}
			return nil
		})
	return serve.Run(ctx, service)
}

// payments returns a client of the payment provider, and what ends the provider if this process has started it.
func (c config) payments(ctx context.Context) (client *provider.Client, stop func() error, err error) {
	if c.provider != "" {
		return provider.NewClient(c.provider, 0), func() error { return nil }, nil
	}
	p, err := provider.Start(ctx, filepath.Join(c.stores.Dir, "payments.db"))
	if err != nil {
		return nil, nil, err
	}
	return provider.NewClient(p.URL, 0), p.Close, nil
}

// model returns the model, and its name.
func (c config) model() (m agent.Model, name string, err error) {
	switch {
	case c.env("OPENAI_API_KEY") != "":
		name = cmp.Or(c.env("OPENAI_MODEL"), "gpt-5-mini")
		m, err = openai.New(name, nil)
	case c.env("ANTHROPIC_API_KEY") != "":
		name = cmp.Or(c.env("ANTHROPIC_MODEL"), "claude-sonnet-4-5")
		m, err = anthropic.New(name, nil)
	default:
		m, name = &model.Scripted{Pause: min(c.pace/10, 60*time.Millisecond)}, "scripted"
	}
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", errConfig, err)
	}
	return keyed{m}, name, nil
}

// A keyed model logs that its key is refused. The text of such an error names the variable, and repeats nothing that
// was said; the agent logs no text.
type keyed struct{ agent.Model }

// Reply implements agent.Model.
func (m keyed) Reply(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
	reply, err := m.Model.Reply(ctx, r, token)
	if e, ok := errors.AsType[*models.Error](err); ok && e.Status == http.StatusUnauthorized {
		slog.ErrorContext(ctx, e.Error())
	}
	return reply, err
}

// paced returns a model that waits before each reply.
func paced(m agent.Model, pace time.Duration) agent.Model {
	if pace <= 0 {
		return m
	}
	return agent.ModelFunc(func(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
		if err := pause(ctx, pace); err != nil {
			return agent.Reply{}, err
		}
		return m.Reply(ctx, r, token)
	})
}

// logError logs no text of the error: it may repeat what a user said. The bots log how their turns end.
func logError(_ *http.Request, err error) {
	slog.Warn("request failed", "type", orchestrator.Public(err).Type)
}
