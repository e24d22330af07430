package oncall_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/serve"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// programEnv makes the test binary the program that the test scrapes. Its value is the URL of the database.
const programEnv = "HOLDFAST_TEST_SCRAPED"

func TestMain(m *testing.M) {
	url := os.Getenv(programEnv)
	if url == "" {
		testenv.Main(m)
	}
	if err := program(context.Background(), url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const botName = "shop"

// What a customer says to the bot.
const (
	hello = "hello" // settles, after helloTakes
	fail  = "fail"  // fails with an error that this module does not know
	pay   = "pay"   // leaves an effect in doubt, and asks a person
	owe   = "owe"   // settles, and is not delivered
	left  = "left"  // the caller goes away, and the run is parked
	noise = "noise" // says more than its reader takes
)

const helloTakes = 37 * time.Millisecond

type (
	state struct{ Reply string }
	turn  = orchestrator.Turn[state]
)

func say(ctx context.Context, t *turn) error {
	switch t.Input.Text {
	case hello:
		time.Sleep(helloTakes)
		t.AddUsage(orchestrator.Usage{Input: 812, Output: 40, Cost: 0.002, Model: "small"})
	case fail:
		return errors.New("the model says no")
	case pay:
		_, err := orchestrator.Once(ctx, t, "pay", func(context.Context, string) (string, error) {
			return "", errors.New("the bank hangs up")
		}, &orchestrator.OnceOptions[string]{Class: ledger.Ask, Key: t.Session})
		return err
	case left:
		<-ctx.Done()
		return ctx.Err()
	case noise:
		for range 20_000 {
			t.Emit("blah")
		}
	}
	t.State.Reply = t.Input.Text
	return nil
}

func deliver(_ context.Context, r *orchestrator.Result[state]) error {
	if r.Input.Text == owe {
		return errors.New("the mail server is down")
	}
	return nil
}

// program is a service as docs/operations.md has it. It prints its address, and ends with a signal.
func program(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	exporter, err := prometheus.New()
	if err != nil {
		return err
	}
	bot, err := orchestrator.New(orchestrator.Definition[state]{
		Name: botName, Intents: orchestrator.Intents[state]{"say": {Run: say}}, Deliver: deliver,
	}, pgcheckpoint.New(pool, nil), &orchestrator.Options{
		Snapshots: pgsnapshot.New(pool, nil), Ledger: pgledger.New(pool, nil),
		Limits: orchestrator.Limits{Attempts: 1, SettleTimeout: 5 * time.Second},
	})
	if err != nil {
		return err
	}
	// The counters are there from 0 also if the provider is set after New.
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(exporter)))
	o := turnhttp.Options[state]{
		Authorize: turnhttp.Anyone,
		Questions: func(*state) []approval.Question { return nil },
		Answer: func(approval.Question, approval.Answer) (orchestrator.Input, error) {
			return orchestrator.Input{}, errors.New("nothing is asked")
		},
		Inbox: pginbox.New(pool, nil),
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	return serve.Run(ctx, serve.Service{
		Handler: routes(bot), Bots: []serve.Bot{bot}, Listener: listener,
		Background: []func(context.Context) error{
			func(ctx context.Context) error { return o.Desk(bot).Run(ctx) },
		},
		Close: func() error { pool.Close(); return nil },
	})
}

// routes answers POST /say?session=…&text=… with the kind of outcome.
func routes(bot *orchestrator.Orchestrator[state]) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.Handler())
	mux.HandleFunc("POST /say", func(w http.ResponseWriter, r *http.Request) {
		ctx, text := r.Context(), r.FormValue("text")
		call := &orchestrator.CallOptions{}
		switch text {
		case left:
			var leave context.CancelFunc
			ctx, leave = context.WithCancel(ctx)
			defer leave()
			call.OnEvent = func(e orchestrator.Event) {
				if e.Kind == orchestrator.IntentStarted {
					leave()
				}
			}
		case noise:
			hang := make(chan struct{})
			defer close(hang)
			call.OnEvent = func(orchestrator.Event) { <-hang }
		}
		_, err := bot.Execute(ctx, r.FormValue("session"), orchestrator.Input{Text: text}, call)
		switch {
		case errors.Is(err, orchestrator.ErrSuspended):
			fmt.Fprint(w, "suspended")
		case errors.Is(err, orchestrator.ErrIndeterminate):
			fmt.Fprint(w, "left")
		case err != nil:
			fmt.Fprint(w, "failed")
		default:
			fmt.Fprint(w, "settled")
		}
	})
	return mux
}

// A service is the program at work.
type service struct {
	t    *testing.T
	addr string
}

func startProgram(t *testing.T, url string) service {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), programEnv+"="+url)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the program says nothing")
	}
	return service{t, lines.Text()}
}

// do sends a request, until the program takes it.
func (s service) do(method, path string) string {
	s.t.Helper()
	var last error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		body, err := send(s.t.Context(), method, "http://"+s.addr+path)
		if err == nil {
			return body
		}
		last = err
		time.Sleep(poll)
	}
	s.t.Fatalf("%s %s: %v", method, path, last)
	return ""
}

func send(ctx context.Context, method, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return "", err
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer w.Body.Close()
	var text strings.Builder
	_, err = bufio.NewReader(w.Body).WriteTo(&text)
	if w.StatusCode != http.StatusOK {
		err = cmp.Or(err, fmt.Errorf("%s: %.200s", w.Status, text.String()))
	}
	return text.String(), err
}

// play says something in a session of its own, and wants an outcome.
func (s service) play(session, text, want string) {
	s.t.Helper()
	if got := s.do(http.MethodPost, "/say?session="+session+"&text="+text); got != want {
		s.t.Fatalf("%s: %s, want %s", text, got, want)
	}
}
