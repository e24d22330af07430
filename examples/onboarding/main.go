// Onboarding is a workflow that sleeps and waits for a person. Its process is killed while it sleeps, and the next one
// goes on.
//
//	go run ./examples/onboarding
//
// The program starts itself twice as a service on one SQLite file, and is the client of that service. To be the client
// yourself, start the service alone, and use the lines of curl that it prints:
//
//	go run ./examples/onboarding onboarding.db
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
	"github.com/holdfast-go/holdfast/workflow/workflowhttp"
)

// A Signup is the input of a run, and a User what its first step makes.
type (
	Signup struct {
		Email string `json:"email"`
	}
	User struct {
		ID string `json:"id"`
	}
)

// welcomeDelay is five minutes in a real service. A busy machine kills process 1 in less than this.
const welcomeDelay = 10 * time.Second

// onboard is the whole workflow. Each step happens once, whatever happens to the process.
var onboard = flow.New("onboard-user", 1, func(r *flow.Run, in Signup) (string, error) {
	user, err := flow.Step(r, "create-user", func(ctx context.Context) (User, error) { return createUser(ctx, in) })
	if err != nil {
		return "", err
	}
	if err := r.Sleep("welcome-delay", welcomeDelay); err != nil {
		return "", err
	}
	welcome := func(context.Context) error { return mail("welcome", in.Email) }
	if err := flow.Do(r, "send-welcome", welcome, flow.Retry(retry.Exponential(5, 2*time.Second))); err != nil {
		return "", err
	}
	_, err = flow.Wait[any](r, "verify", flow.Match{"userId": user.ID}, flow.Timeout(7*24*time.Hour))
	if errors.Is(err, flow.ErrTimeout) {
		err = flow.Do(r, "nudge", func(context.Context) error { return mail("please verify", in.Email) })
	}
	return user.ID, err
}, flow.Keep(30))

// createUser stands for the INSERT of a user.
func createUser(context.Context, Signup) (User, error) {
	fmt.Println("  creates the user")
	return User{ID: "u-42"}, nil
}

// mail stands for a provider of mails.
func mail(what, to string) error {
	_, err := fmt.Printf("  sends the mail %q to %s\n", what, to)
	return err
}

// serve is the service: the engine, and its runs over HTTP.
func serve(ctx context.Context, file, addr string) error {
	db, err := sqlite.Open(file)
	if err != nil {
		return err
	}
	defer db.Close()
	lite := sqlite.New(db, nil)
	if err := lite.Up(ctx); err != nil {
		return err
	}
	engine := flow.NewEngine(lite.Workflows(), nil, onboard)
	runs := workflowhttp.New(engine.Front(), &workflowhttp.Options{
		Authorize: workflowhttp.HeaderPresent, // a real service looks at what the header says
	})
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Print(serves, "http://", l.Addr(), "\n")
	server := &http.Server{Handler: runs, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	return engine.Run(ctx)
}

// serves begins the line that tells where a service is.
const serves = "serves "

// usage tells a person what to type.
func usage(url string) {
	fmt.Printf(`start a run:  curl -sH 'Authorization: me' --json '{"input": {"email": "ann@example.com"}}' %[1]s
see it:       curl -sH 'Authorization: me' %[1]s/RUN/steps
signal it:    curl -sH 'Authorization: me' --json '{"userId": "u-42"}' %[1]s/RUN/signals/verify
`, url+path)
}

const path = "/v1/workflows/onboard-user/runs"

// A child is a service in a process of its own.
type child struct {
	*exec.Cmd
	lines *bufio.Scanner // what it says
	url   string
}

// start starts a service, and waits until it serves.
func start(ctx context.Context, file string) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{Cmd: exec.CommandContext(ctx, program, file, "127.0.0.1:0")}
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	if c.lines = bufio.NewScanner(out); !c.lines.Scan() {
		return nil, fmt.Errorf("the service does not serve: %w", c.Wait())
	}
	c.url = strings.TrimPrefix(c.lines.Text(), serves)
	return c, nil
}

// hear shows the next line of the service.
func (c *child) hear() error {
	if !c.lines.Scan() {
		return errors.New("the service says nothing more")
	}
	fmt.Println(c.lines.Text())
	return nil
}

// kill kills the service. It returns how many lines the service has said that were not shown, and how it has ended.
func (c *child) kill() (more int, ended error) {
	if err := c.Process.Kill(); err != nil {
		return 0, err
	}
	for c.lines.Scan() {
		fmt.Println(c.lines.Text())
		more++
	}
	return more, c.Wait()
}

// ask makes a request. What it gets is JSON.
func (c *child) ask(ctx context.Context, method, path, body string, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "me")
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, text)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// A run is what the service says of a run.
type run struct {
	ID     string          `json:"id"`
	Status workflow.Status `json:"status"`
	Event  string          `json:"event"` // what it waits for
	Output string          `json:"output"`
}

// await asks until the run is as it should be.
func (c *child) await(ctx context.Context, id string, is func(run) bool) (r run, err error) {
	for err == nil && !is(r) {
		if err = c.ask(ctx, http.MethodGet, path+"/"+id, "", &r); err == nil {
			time.Sleep(20 * time.Millisecond)
		}
	}
	return r, err
}

// demonstrate is the client.
func demonstrate(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "onboarding")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "onboarding.db")
	first, err := start(ctx, file)
	if err != nil {
		return err
	}
	id, err := first.signUp(ctx)
	_, ended := first.kill()
	if err != nil {
		return err
	}
	fmt.Println("  process 1 is gone while the run sleeps:", ended)
	second, err := start(ctx, file)
	if err != nil {
		return err
	}
	r, err := second.goOn(ctx, id)
	more, _ := second.kill()
	if err == nil {
		fmt.Printf("the run is %s: %s. Steps that ran a second time: %d\n", r.Status, r.Output, more)
	}
	return err
}

// signUp starts a run, and waits until it sleeps.
func (c *child) signUp(ctx context.Context) (id string, err error) {
	fmt.Println("process 1: ann@example.com signs up")
	signup := `{"input": {"email": "ann@example.com"}, "idempotencyKey": "user-42-onboard"}`
	var r run
	if err := c.ask(ctx, http.MethodPost, path, signup, &r); err != nil {
		return "", err
	}
	if err := c.hear(); err != nil {
		return "", err
	}
	return r.ID, c.sleeps(ctx, r.ID)
}

// goOn sees a run to its end in another process than the first.
func (c *child) goOn(ctx context.Context, id string) (r run, err error) {
	fmt.Println("process 2: goes on when the run is due")
	if err := c.hear(); err != nil {
		return r, err
	}
	if r, err = c.await(ctx, id, func(r run) bool { return r.Event == "verify" }); err != nil {
		return r, err
	}
	fmt.Println("  the run waits for ann, who clicks the link:")
	if err := c.click(ctx, id); err != nil {
		return r, err
	}
	return c.await(ctx, id, func(r run) bool { return r.Status.Over() })
}

// sleeps waits until the journal has the sleep of a run.
func (c *child) sleeps(ctx context.Context, id string) error {
	for {
		var journal struct {
			Steps []struct{ Name string }
		}
		if err := c.ask(ctx, http.MethodGet, path+"/"+id+"/steps", "", &journal); err != nil {
			return err
		}
		if len(journal.Steps) == 2 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// click sends the signal with curl, or without if there is none.
func (c *child) click(ctx context.Context, id string) error {
	const payload = `{"userId": "u-42"}`
	signal := path + "/" + id + "/signals/verify"
	fmt.Printf("  $ curl -sH 'Authorization: me' --json '%s' …/signals/verify\n", payload)
	var receipt struct{ Receipt workflow.Receipt }
	var err error
	if curl, lookErr := exec.LookPath("curl"); lookErr == nil {
		var out []byte
		out, err = exec.CommandContext(ctx, curl, "-sS", "-H", "Authorization: me",
			"-H", "Content-Type: application/json", "-d", payload, c.url+signal).Output()
		if err == nil {
			err = json.Unmarshal(out, &receipt)
		}
	} else {
		err = c.ask(ctx, http.MethodPost, signal, payload, &receipt)
	}
	fmt.Println(" ", receipt.Receipt)
	return err
}

func main() {
	ctx := context.Background()
	var err error
	switch args := os.Args[1:]; len(args) {
	case 0:
		err = demonstrate(ctx)
	case 1:
		usage("http://127.0.0.1:8080")
		err = serve(ctx, args[0], "127.0.0.1:8080")
	default:
		err = serve(ctx, args[0], args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}
