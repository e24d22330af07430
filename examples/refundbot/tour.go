package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// tourPace leaves time to kill a process between two steps.
const tourPace = 400 * time.Millisecond

// tour shows in the terminal what becomes of a refund whose processes are killed.
func tour(ctx context.Context, c config, stdout io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.stores.DatabaseURL == "" {
		if c.stores.Dir, err = os.MkdirTemp("", "refundbot"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.stores.Dir)) }()
	}
	c.addr, c.pace = "127.0.0.1:0", cmp.Or(c.pace, tourPace)
	t := &guide{out: stdout, styled: styled(stdout, c.env)}
	return withDemo(ctx, c, func(url string, d *demo) error {
		t.url, t.demo = url, d
		return t.run(ctx)
	})
}

// styled reports whether out is a terminal that has colours, and its user wants some.
func styled(out io.Writer, env func(string) string) bool {
	f, ok := out.(*os.File)
	if !ok || env("NO_COLOR") != "" || env("TERM") == "" || env("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// A guide leads through the tour.
type guide struct {
	out    io.Writer
	styled bool
	url    string
	demo   *demo
}

// The turn of the tour.
const (
	tourSession = "ada-1"
	tourKey     = "tour"
	tourText    = "I want a refund for A-1007"
	tourOrder   = "A-1007"
)

func (g *guide) run(ctx context.Context) error {
	if err := g.bothServe(ctx); err != nil {
		return err
	}
	a, b := g.demo.workers[0].doc(), g.demo.workers[1].doc()
	g.say("Two processes serve one bot: a (pid %d) and b (pid %d).", a.PID, b.PID)
	g.say("A customer writes: %q", tourText)
	if _, err := g.follow(ctx, "order"); err != nil {
		return err
	}
	first := g.owner(ctx)
	if first == nil {
		return errors.New("nobody works on the turn")
	}
	if err := first.do("kill"); err != nil {
		return err
	}
	g.say("%s kill -9 before it pays.", g.red("Process "+first.name+" has looked the order up."))

	end := g.wait("waiting for the other process")
	ended, err := g.follow(ctx, "")
	end()
	if err != nil {
		return err
	}
	g.say("The other process went on, paid, and has begun to reply: %q", strings.TrimSpace(ended)+" …")
	for _, w := range g.demo.workers {
		if err := w.do("kill"); err != nil && w.doc().State != dead {
			return err
		}
	}
	g.say("%s kill -9 for both, in the middle of the reply.", g.red("Nothing is settled yet."))
	return g.finish(ctx)
}

// finish waits until the turn is settled, and counts the payments.
func (g *guide) finish(ctx context.Context) error {
	end := g.wait("two new processes start, and both drain")
	err := g.bothServe(ctx)
	var reply string
	if err == nil {
		reply, err = g.settled(ctx)
	}
	end()
	if err != nil {
		return err
	}
	g.say("The turn is settled: %q", reply)
	all, err := g.demo.provider.Payments(ctx)
	if err != nil {
		return err
	}
	n := 0
	for _, p := range all {
		if p.Order == tourOrder {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("order %s was paid %d times", tourOrder, n)
	}
	g.say("%s", g.green(fmt.Sprintf("Order %s was paid %d time.", tourOrder, n)))
	return nil
}

// follow asks, with the same key each time, until a tool has a result; for "", until there are some words. It returns
// the words.
func (g *guide) follow(ctx context.Context, tool string) (said string, err error) {
	for ctx.Err() == nil {
		ended, said, err := g.events(ctx, tool)
		if ended || err != nil {
			return said, err
		}
		_ = pause(ctx, 200*time.Millisecond) // the process has gone, or none serves
	}
	return "", context.Cause(ctx)
}

// events reads the events of the turn for follow.
func (g *guide) events(ctx context.Context, tool string) (ended bool, said string, err error) {
	answer, err := g.ask(ctx, "text/event-stream")
	if err != nil {
		return false, "", err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	calls := make(map[string]string)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var ev orchestrator.Event
		if !ok || json.Unmarshal([]byte(data), &ev) != nil {
			continue
		}
		var part turnhttp.Part
		_ = json.Unmarshal(ev.Data, &part) // of another event there is none
		switch {
		case ev.Kind == orchestrator.IntentStarted || ev.Kind == orchestrator.TurnResumed:
			said = ""
		case ev.Kind == orchestrator.Token:
			if said += ev.Delta; tool == "" && strings.Count(said, " ") > 3 {
				return true, said, nil
			}
		case part.Type == turnhttp.PartCall:
			calls[part.ID] = part.Name
		case part.Type == turnhttp.PartResult && calls[part.ID] == tool:
			return true, said, nil
		case ev.Kind == orchestrator.TurnSettled:
			return false, said, errors.New("the turn has settled before its time")
		}
	}
	return false, said, nil
}

// settled asks until there is the settled turn.
func (g *guide) settled(ctx context.Context) (reply string, err error) {
	for ctx.Err() == nil {
		answer, err := g.ask(ctx, "application/json")
		if err != nil {
			return "", err
		}
		var turn struct {
			Reply struct{ Text string }
		}
		err = json.NewDecoder(answer.Body).Decode(&turn)
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return turn.Reply.Text, err
		}
		_ = pause(ctx, 200*time.Millisecond)
	}
	return "", context.Cause(ctx)
}

func (g *guide) ask(ctx context.Context, accept string) (*http.Response, error) {
	body, err := json.Marshal(map[string]string{"message": tourText})
	if err != nil {
		return nil, err
	}
	url := g.url + "/sessions/" + tourSession + "/turns"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	r.Header.Set("Idempotency-Key", tourKey)
	return g.do(r)
}

// do makes a request as the customer.
func (g *guide) do(r *http.Request) (*http.Response, error) {
	ada := person{"ada", roleCustomer, time.Now().Add(signedFor)}
	r.AddCookie(g.demo.config.people.cookie(r, ada))
	return http.DefaultClient.Do(r)
}

// owner returns the worker that owns the session; nil if none does.
func (g *guide) owner(ctx context.Context) *worker {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/sessions/"+tourSession, nil)
	if err != nil {
		return nil
	}
	answer, err := g.do(r)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var session struct {
		Owner struct{ ID string }
	}
	if json.NewDecoder(answer.Body).Decode(&session) != nil {
		return nil
	}
	for _, w := range g.demo.workers {
		if strings.HasPrefix(session.Owner.ID, w.doc().Owner) {
			return w
		}
	}
	return nil
}

// bothServe waits until both workers serve.
func (g *guide) bothServe(ctx context.Context) error {
	for _, w := range g.demo.workers {
		for {
			state, changed := w.watch()
			if state == running {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

func (g *guide) say(format string, args ...any) { fmt.Fprintf(g.out, format+"\n", args...) }

func (g *guide) red(text string) string   { return g.style("31", text) }
func (g *guide) green(text string) string { return g.style("32", text) }

func (g *guide) style(code, text string) string {
	if !g.styled {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// wait shows that time passes, until end is called.
func (g *guide) wait(what string) (end func()) {
	began, quit, done := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				g.progress(what, time.Since(began))
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
		if g.styled {
			fmt.Fprint(g.out, "\r\x1b[K")
		}
		g.say("  %s: %.1f s", what, time.Since(began).Seconds())
	}
}

// progress rewrites its line on a terminal, and is silent elsewhere.
func (g *guide) progress(what string, took time.Duration) {
	if g.styled {
		fmt.Fprintf(g.out, "\r\x1b[K  %s: %.0f s", what, took.Seconds())
	}
}
