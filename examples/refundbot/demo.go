package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/internal/loopback"
	"github.com/holdfast-go/holdfast/examples/refundbot/page"
	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// In the demonstration this process keeps the socket and the payment provider, and starts two workers, which are
// processes as main.go describes. It passes requests on to a worker that lives. The page can kill the workers.

// What differs from a service: there is time to look, and to press a button.
const (
	demoPace  = 600 * time.Millisecond
	demoGrace = 500 * time.Millisecond
	// mourning is how long a worker is dead before another takes its place.
	mourning = 2 * time.Second
	// lastChance is how long workers may take to end before they are killed.
	lastChance = 5 * time.Second
)

// A demo is the parent of the workers.
type demo struct {
	config   config
	provider *provider.Running
	model    string
	workers  []*worker

	mu sync.Mutex // protects the following field
	// current is the worker that gets the requests, while it lives.
	current int
}

// demonstrate runs the demonstration until ctx ends, or a signal comes.
func demonstrate(ctx context.Context, c config, stdout io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal ends the process at once
	return withDemo(ctx, c, func(url string, _ *demo) error {
		if err := c.announce(stdout, url); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

// withDemo starts the demonstration, calls f when it serves, and ends it.
func withDemo(ctx context.Context, c config, f func(url string, d *demo) error) (err error) {
	listener, err := listenLoopback(ctx, c.addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closed(listener.Close())) }()
	if err := prepare(ctx, c); err != nil {
		return err
	}
	d := &demo{config: c}
	if _, d.model, err = c.model(); err != nil {
		return err
	}
	if d.provider, err = provider.Start(ctx, filepath.Join(c.stores.Dir, "payments.db")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.provider.Close()) }()
	ctx, end := context.WithCancel(ctx)
	defer d.keep(ctx)()
	defer end()
	if err := d.ready(ctx); err != nil {
		return err
	}
	server := &http.Server{Handler: d.handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: quietLog()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	err = f("http://"+listener.Addr().String(), d)
	return errors.Join(err, closed(server.Close()), closed(<-served))
}

// closed drops the errors of what was closed already.
func closed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func quietLog() *log.Logger { return slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug) }

// listenLoopback refuses addresses that others can reach: on this socket anyone can kill the workers.
func listenLoopback(ctx context.Context, addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if !loopback.Named(host) {
		return nil, fmt.Errorf("the demonstration is for loopback only: %q is not; see -demo=false", addr)
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", addr)
}

// prepare makes the tables, and finds out what would keep the workers from starting.
func prepare(ctx context.Context, c config) error {
	all, err := stores.Open(c.stores)
	if err != nil {
		return err
	}
	return errors.Join(all.Prepare(ctx, c.migrate), all.Close())
}

// keep starts the workers. The func that it returns waits for their end, after ctx has ended.
func (d *demo) keep(ctx context.Context) (wait func()) {
	var workers sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		w := &worker{
			name: name, version: d.config.version, args: d.args(), env: d.env(), idle: d.config.stores.Idle,
			changed: make(chan struct{}),
		}
		d.workers = append(d.workers, w)
		workers.Go(func() { w.keep(ctx) })
	}
	return workers.Wait
}

// args are the flags of a worker, except for the version of the bot.
func (d *demo) args() []string {
	args := []string{
		"-demo=false", "-addr", "127.0.0.1:0", "-migrate=false", "-data", d.config.stores.Dir,
		"-grace", demoGrace.String(), "-pace", cmp.Or(d.config.pace, demoPace).String(), "-log", d.config.logs.String(),
		"-approval", d.config.ttl.String(), "-drain-timeout", d.config.drain.String(),
	}
	if d.config.stores.Own {
		args = append(args, "-migrations", "app")
	}
	if d.config.stores.Newer {
		args = append(args, "-newer")
	}
	return args
}

func (d *demo) env() []string {
	return append(os.Environ(), "PROVIDER_URL="+d.provider.URL, parentEnv+"="+strconv.Itoa(os.Getpid()),
		keyEnv+"="+string(d.config.people.key), wordEnv+"="+d.config.people.word)
}

// ready waits until a worker serves.
func (d *demo) ready(ctx context.Context) error {
	patience := time.NewTimer(time.Minute)
	defer patience.Stop()
	for {
		changed := d.changes()
		for _, w := range d.workers {
			if at, _ := w.place(); at != nil {
				return nil
			}
		}
		select {
		case <-changed[0]:
		case <-changed[1]:
		case <-ctx.Done():
			return nil
		case <-patience.C:
			return errors.New("no worker has started within a minute")
		}
	}
}

// changes returns a channel for each worker, which is closed when its state changes.
func (d *demo) changes() (all []chan struct{}) {
	for _, w := range d.workers {
		_, changed := w.watch()
		all = append(all, changed)
	}
	return all
}

// handler answers what is about the demonstration, and passes the rest on. Everyone on this machine may kill workers,
// and let the provider fail, without signing in: that is what the demonstration is for. Pages of other sites may not.
func (d *demo) handler() http.Handler {
	client := provider.NewClient(d.provider.URL, 0)
	mux := http.NewServeMux()
	mux.Handle("/", d.proxy())
	site := d.config.people.welcome(page.Handler())
	for _, path := range []string{"/{$}", "/concierge/{$}", "/desk/", "/page/"} { // pages come although no worker lives
		mux.Handle("GET "+path, site)
	}
	mux.Handle("GET /desk/sessions/", d.proxy())
	mux.HandleFunc("GET /app/config", d.describe)
	mux.HandleFunc("GET /app/payments", payments(client, d.config.people))
	d.config.people.routes(mux) // people sign in although no worker lives
	mux.HandleFunc("GET /app/provider", d.mode)
	mux.HandleFunc("POST /app/provider", d.setMode)
	mux.HandleFunc("POST /app/workers/{name}", d.command)
	return loopback.Only(http.NewCrossOriginProtection().Handler(mux))
}

func (d *demo) describe(w http.ResponseWriter, _ *http.Request) {
	doc := configDoc{Demo: true, Stores: d.config.stores.Setting(), Model: d.model}
	d.mu.Lock()
	current := d.workers[d.current]
	d.mu.Unlock()
	for _, one := range d.workers {
		shown := one.doc()
		shown.Turns = one == current
		doc.Workers = append(doc.Workers, shown)
	}
	answer(w, http.StatusOK, doc)
}

func (d *demo) mode(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]provider.Mode{"mode": d.provider.Mode()})
}

func (d *demo) setMode(w http.ResponseWriter, r *http.Request) {
	var to struct {
		Mode provider.Mode `json:"mode"`
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	if err := turnhttp.ReadJSON(r, &to); err != nil || !to.Mode.Known() {
		http.Error(w, fmt.Sprintf("the mode is one of %v", provider.Modes), http.StatusBadRequest)
		return
	}
	d.provider.SetMode(to.Mode)
	answer(w, http.StatusOK, to)
}

// command kills, stops, continues or drains a worker, or deploys the other version of the bot to it.
func (d *demo) command(w http.ResponseWriter, r *http.Request) {
	var what struct {
		Do string `json:"do"`
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	if err := turnhttp.ReadJSON(r, &what); err != nil {
		turnhttp.Problem(w, r, err)
		return
	}
	for _, one := range d.workers {
		if one.name != r.PathValue("name") {
			continue
		}
		if err := one.do(what.Do); err != nil {
			http.Error(w, "the worker cannot do that now", http.StatusConflict)
			return
		}
		answer(w, http.StatusOK, one.doc())
		return
	}
	http.NotFound(w, r)
}

// parentEnv tells a worker that it has a parent.
const parentEnv = "REFUNDBOT_PARENT"

// withParent returns ctx of a process that ends with its parent: the parent holds the other end of stdin.
func withParent(ctx context.Context, env func(string) string) context.Context {
	if env(parentEnv) == "" {
		return ctx
	}
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end(errors.New("the parent has gone"))
	}()
	return ctx
}

// firstLine returns the address in the line that a worker prints when it serves.
func firstLine(stdout io.Reader) (address string, err error) {
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return "", err
	}
	_, address, ok := strings.Cut(strings.TrimSpace(line), " is at ")
	if !ok {
		return "", fmt.Errorf("a worker says %q", line)
	}
	return address, nil
}

// command returns the process of a worker.
func workerCommand(args, env []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	cmd.SysProcAttr = dieWithParent()
	return cmd, nil
}
