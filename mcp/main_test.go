package mcp_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/mcp"
)

// roleKey is the variable that says which server a process of the test binary is.
const roleKey = "HOLDFAST_MCP_ROLE"

func TestMain(m *testing.M) {
	role, arg, _ := strings.Cut(os.Getenv(roleKey), " ")
	var err error
	switch role {
	case "":
		leaktest.Main(m)
		return
	case "shop":
		err = serveShop()
	case "http":
		err = serveShopHTTP()
	case "liar":
		err = serveLies(arg, os.Stdin, os.Stdout)
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// patience is for what happens at once on a machine that is not busy.
const patience = 2 * time.Minute

// lines gives on what a process says, line by line.
type lines struct {
	all  chan string
	rest []byte
}

func newLines() *lines { return &lines{all: make(chan string, 1000)} }

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		l.all <- string(line)
		l.rest = rest
	}
}

// await returns what follows the prefix in the first line that has it.
func (l *lines) await(t *testing.T, prefix string) string {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case line := <-l.all:
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return strings.TrimSpace(rest)
			}
		case <-late:
			t.Fatalf("the server has not said %q", prefix)
		}
	}
}

// command returns a function that makes the command of a role.
func command(t *testing.T, role string, says io.Writer) func() *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return func() *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), roleKey+"="+role)
		cmd.Stderr = says
		return cmd
	}
}

// start starts a server, and ends it with the test.
func start(t *testing.T, role string, o *mcp.Options) (*mcp.Client, *lines) {
	t.Helper()
	says := newLines()
	c, err := mcp.Command(t.Context(), command(t, role, says), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, c) })
	return c, says
}

func shut(t *testing.T, c *mcp.Client) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// tool returns a tool of a client.
func tool(t *testing.T, c *mcp.Client, name string) agent.Tool {
	t.Helper()
	for _, x := range c.Tools() {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("there is no tool %s", name)
	return agent.Tool{}
}

// run calls a tool as an agent does.
func run(t *testing.T, ctx context.Context, c *mcp.Client, name, args string) (string, error) {
	t.Helper()
	return tool(t, c, name).Run(ctx, agent.Call{ID: "c", Name: name, Args: []byte(args), Key: "key-1"})
}
