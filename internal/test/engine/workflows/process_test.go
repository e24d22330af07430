package workflows_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/serve"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/deliver"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A job is the task of another process.
type job struct {
	Site site

	// Workflow is started, if it has a name, and Key is the key of the start.
	Workflow, Key string

	// Strike is which call to the store the process stops at, if it is not 0. After says that the call has its answer.
	Strike int
	After  bool

	// Versions are those of the workflow chain that the process has.
	Versions []int

	// Limited says that the process has the workflow limited.
	Limited bool

	// Ticks says that the process has the workflow tick, with its schedule.
	Ticks bool

	// Turn is where a turn of the process waits, which is a step: "in" or "after" it, or until it is handed off.
	Turn string

	// Once is where a turn of the process waits that starts a run: "before" the start, "in" the effect or "after" it.
	Once string

	// Serve says that the engine runs in a service, with the bot of Turn.
	Serve bool

	// Webhooks says that the process posts webhooks.
	Webhooks bool
}

// What a process and its test say to each other.
const (
	here = "here"  // the process is where it stops
	over = "over"  // its run is over, or has left it
	goOn = "go on" // to a process that has stopped
	end  = "end"   // to a process that shall shut down
)

// do runs an engine until the test says that it should end.
func (j job) do(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	h := &hook{
		strike: j.Strike, after: j.After, out: os.Stdout, up: make(chan struct{}), goOn: make(chan struct{}),
	}
	if j.Site.Kind == "sqlite" {
		h.alone = new(sync.RWMutex)
	}
	w, err := j.Site.open(ctx, h)
	if err != nil {
		return err
	}
	defer w.close()
	var b *bot
	var defs []flow.Definition
	for _, v := range j.Versions {
		defs = append(defs, w.chain(v))
	}
	if j.Limited {
		defs = append(defs, w.limited())
	}
	if j.Ticks {
		defs = append(defs, ticking())
	}
	if j.Workflow != "" {
		defs = append(defs, w.verbs(j.Workflow), w.inner(j.Workflow))
	}
	if j.Turn != "" {
		if b, err = w.bot(h, j.Turn); err != nil {
			return err
		}
		defs = append(defs, w.turns(b, h, j.Turn))
	}
	if j.Webhooks {
		defs = append(defs, deliver.Webhook(&deliver.WebhookOptions{AllowPrivate: true}))
	}
	if j.Once != "" {
		return w.startOnce(ctx, h, j.Once)
	}
	engine := flow.NewEngine(&struck{w.store, h}, j.options(), defs...)
	go obey(h, stop)
	if j.Workflow != "" {
		go func() {
			<-h.up
			c := workflow.NewClient(engine.Front())
			s, err := c.Start(ctx, j.Workflow, 1, &workflow.StartOptions{IdempotencyKey: j.Key})
			if err == nil {
				_, err = c.Await(ctx, s.ID)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			fmt.Println(over)
		}()
	}
	if j.Serve {
		return j.serve(ctx, engine, b)
	}
	return engine.Run(ctx)
}

// obey does what the test says, until it says that the process should stop, or has gone.
func obey(h *hook, stop func()) {
	for in := bufio.NewScanner(os.Stdin); in.Scan() && in.Text() == goOn; {
		close(h.goOn)
	}
	stop()
}

func (j job) options() *flow.Options {
	o := j.Site.options()
	if j.Serve {
		o.Grace = j.grace() / 2
	}
	return o
}

// grace is how long turns of a service go on at its end: those that end have enough time.
func (j job) grace() time.Duration {
	if j.Turn == handedOff {
		return 2 * time.Second
	}
	return time.Minute
}

// serve is the life of a process with a bot and an engine. What goes on at the end has less time as a step than as a
// turn.
func (j job) serve(ctx context.Context, engine *flow.Engine, b *bot) error {
	return serve.Run(ctx, serve.Service{
		Addr: "127.0.0.1:0", Handler: http.NotFoundHandler(), Logger: quiet,
		Bots:       []serve.Bot{b},
		Background: []func(context.Context) error{engine.Run},
		Timeouts:   serve.Timeouts{Grace: j.grace()},
	})
}

// A child is another process. It does not outlive the test.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (j job) start(t *testing.T) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(exe)}
	c.cmd.Env = append(os.Environ(), jobEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// next returns the next line of the process, or "".
func (c *child) next() string {
	if !c.out.Scan() {
		return ""
	}
	return c.out.Text()
}

// hear waits for a line of the process.
func (c *child) hear(want string) {
	c.t.Helper()
	if got := c.next(); got != want {
		c.t.Fatalf("the process says %q, want %q", got, want)
	}
}

func (c *child) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// kill kills the process with SIGKILL, also if it has stopped.
func (c *child) kill() {
	if c.cmd.ProcessState == nil {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// stop stops the process, and resume lets it go on.
func (c *child) stop()   { _ = c.cmd.Process.Signal(sigStop) }
func (c *child) resume() { _ = c.cmd.Process.Signal(sigCont) }

// end lets the process shut down, and waits for that.
func (c *child) end() {
	c.t.Helper()
	c.say(end)
	for c.out.Scan() {
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("the process does not shut down: %v", err)
	}
}
