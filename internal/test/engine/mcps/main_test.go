// Package mcps_test kills processes of agents in the middle of a call of an MCP server.
package mcps_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/agenttest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/mcp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/sqlite"
)

// serverKey is the variable that makes the test binary a server, whose directory it names.
const serverKey = "HOLDFAST_MCP_SERVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverKey); dir != "" {
		if err := newServer(dir).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		return
	}
	testenv.MainWith(m, map[string]testenv.Role{"agent": says})
}

// A play is one session that calls a tool once.
type play struct{ Dir, Address, Tool string }

// newServer returns a server that notes the calls, with their keys, in a file of the directory. The first call of all
// has no end.
func newServer(dir string) *sdk.Server {
	s, no := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil), false
	for name, hints := range map[string]*sdk.ToolAnnotations{
		"look": {ReadOnlyHint: true}, "mark": {IdempotentHint: true, DestructiveHint: &no}, "note": {DestructiveHint: &no},
	} {
		sdk.AddTool(s, &sdk.Tool{Name: name, Annotations: hints},
			func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
				first, err := note(dir, fmt.Sprint(name, " ", r.Params.GetMeta()["holdfast/key"]))
				if err == nil && first {
					<-ctx.Done()
					err = ctx.Err()
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "did " + name}}}, nil, err
			})
	}
	hints := &sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: &no}
	sdk.AddTool(s, &sdk.Tool{Name: "seat", Annotations: hints},
		func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			return seat(ctx, dir, r.Params)
		})
	return s
}

// seat asks for a seat, and books it. The first call without the answer, and the first one with it, have no end.
func seat(ctx context.Context, dir string, p *sdk.CallToolParamsRaw) (*sdk.CallToolResult, any, error) {
	line := fmt.Sprint("seat ", p.GetMeta()["holdfast/key"], " ", len(p.InputResponses), " ", p.RequestState)
	before, _ := os.ReadFile(filepath.Join(dir, "calls"))
	if _, err := note(dir, line); err != nil {
		return nil, nil, err
	}
	if !strings.Contains(string(before), line+"\n") {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	if len(p.InputResponses) == 0 {
		return &sdk.CallToolResult{RequestState: "held", InputRequests: sdk.InputRequestMap{"1": &sdk.ElicitParams{
			Message: "Which seat?", RequestedSchema: map[string]any{"type": "object"},
		}}}, nil, nil
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "did seat"}}}, nil, nil
}

// note appends a line to the file, and reports whether it is the first one.
func note(dir, line string) (first bool, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = fmt.Fprintln(f, line)
	}
	return err == nil && info.Size() == 0, errors.Join(err, f.Close())
}

func noted(t *testing.T, dir string) (lines []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "calls"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}

// open returns the agent of the play, on a file of its directory.
func (p *play) open(ctx context.Context) (*agent.Agent[struct{}], ledger.Ledger, func(), error) {
	db, err := sqlite.Open(filepath.Join(p.Dir, "test.db"))
	if err != nil {
		return nil, nil, nil, err
	}
	lite := sqlite.New(db, nil)
	if err := lite.Up(ctx); err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	c, err := p.connect(ctx)
	if err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	stores := agent.On(lite)
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "support", Tools: c.Tools(), Model: agenttest.Answers(agenttest.Call("c1", p.Tool, "{}")),
	}, stores, &orchestrator.Options{
		// The process may die before it has told that it lives: then its lease counts.
		Limits: orchestrator.Limits{DeadAfter: 500 * time.Millisecond, LeaseTTL: 3 * time.Second, Attempts: 50},
		Logger: slog.New(slog.DiscardHandler),
	})
	shut := func() { c.Close(); db.Close() }
	if err != nil {
		shut()
	}
	return a, stores.Ledger, shut, err
}

func (p *play) connect(ctx context.Context) (*mcp.Client, error) {
	o := &mcp.Options{Trust: true}
	if p.Address != "" {
		return mcp.HTTP(ctx, p.Address, o)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return mcp.Command(ctx, func() *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), serverKey+"="+p.Dir)
		return cmd
	}, o)
}

func (p *play) say(ctx context.Context, a *agent.Agent[struct{}]) (*agent.Outcome[struct{}], error) {
	return a.Say(ctx, "s", orchestrator.Input{RequestID: "r1", Text: "go"}, nil)
}

// says is the process that is killed.
func says(text string, _ io.Writer) error {
	p, ctx := new(play), context.Background()
	if err := json.Unmarshal([]byte(text), p); err != nil {
		return err
	}
	a, _, shut, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer shut()
	_, err = p.ends(ctx, a)
	return err
}

// The process of an agent is killed in the middle of a call. A tool that reads runs again, and so does one that is
// idempotent, with the same key. Of any other tool a person is asked, and it does not run again.
func TestAgentKilled(t *testing.T) {
	for _, over := range []string{"command", "HTTP"} {
		for tool, doubt := range map[string]bool{"look": false, "mark": false, "note": true} {
			t.Run(over+" "+tool, func(t *testing.T) {
				t.Parallel()
				p := &play{Dir: t.TempDir(), Tool: tool}
				if over == "HTTP" {
					p.Address = serve(t, p.Dir)
				}
				p.kill(t, 1)
				p.goesOn(t, doubt)
			})
		}
	}
}

// A tool asks a person. The process is killed before it has the question, and the next one when the server has the
// answer. The tool runs again with the same key and the same answer, and the person is asked once.
func TestAskKilled(t *testing.T) {
	p := &play{Dir: t.TempDir(), Tool: "seat"}
	p.kill(t, 1)
	p.kill(t, 3)
	a, _, shut, err := p.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer shut()
	o, err := p.ends(t.Context(), a)
	if err != nil || o.Status != agent.Completed || o.Text != "did seat" {
		t.Errorf("%+v, %v", o, err)
	}
	all := noted(t, p.Dir)
	if len(all) != 4 || all[0] != all[1] || all[2] != all[3] || !strings.HasSuffix(all[3], " 1 held") ||
		strings.Fields(all[0])[1] != strings.Fields(all[3])[1] {
		t.Errorf("the server has got the calls %q", all)
	}
}

func serve(t *testing.T, dir string) (address string) {
	t.Helper()
	server := newServer(dir)
	s := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// kill plays in a process that is killed when the server has got so many calls.
func (p *play) kill(t *testing.T, calls int) {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	c := testenv.StartRole(t, "agent", string(text))
	for late := time.Now().Add(time.Minute); len(noted(t, p.Dir)) < calls; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("the server has got the calls %q", noted(t, p.Dir))
		}
	}
	if err := c.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Cmd.Wait() //nolint:errcheck // it was killed
}

// goesOn plays the rest, in another process.
func (p *play) goesOn(t *testing.T, doubt bool) {
	t.Helper()
	a, book, shut, err := p.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer shut()
	o, err := p.ends(t.Context(), a)
	if errors.Is(err, orchestrator.ErrSuspended) != doubt {
		t.Fatalf("%v, and a person is to be asked: %t", err, doubt)
	}
	want, calls := "did "+p.Tool, 2
	if doubt {
		want, calls = "it was noted", 1
		for e, err := range book.Effects(t.Context(), ledger.Query{Open: true}) {
			if err != nil {
				t.Fatal(err)
			}
			ans := ledger.Answer{Landed: true, By: "desk", Result: json.RawMessage(`"it was noted"`)}
			if err := ledger.Resolve(t.Context(), book, e.ID, ans); err != nil {
				t.Fatal(err)
			}
		}
		o, err = p.ends(t.Context(), a)
	}
	if err != nil || o.Status != agent.Completed || o.Text != want {
		t.Errorf("%+v, %v", o, err)
	}
	all := noted(t, p.Dir)
	if len(all) != calls || all[0] != all[len(all)-1] || strings.HasSuffix(all[0], "nil>") != (p.Tool == "look") {
		t.Errorf("the server has got the calls %q", all)
	}
}

// ends says the same until the turn has ended, or an effect is in doubt. A person answers what a tool asks.
func (p *play) ends(ctx context.Context, a *agent.Agent[struct{}]) (o *agent.Outcome[struct{}], err error) {
	for late := time.Now().Add(time.Minute); time.Now().Before(late); {
		if o, err = p.say(ctx, a); err == nil && o.Status == agent.Paused {
			o, err = a.Answer(ctx, "s", o.Pending[0].Call.ID, agent.Provide("ann", `{"seat":"12A"}`))
		}
		if !errors.Is(err, orchestrator.ErrBusy) && !errors.Is(err, orchestrator.ErrIndeterminate) {
			return o, err
		}
	}
	return o, err
}
