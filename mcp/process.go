package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A process is the wiring of a server that the program has started.
type process struct {
	link   *link
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	once   sync.Once // to end it

	mu   sync.Mutex // protects following fields
	conn sdk.Connection
	over bool // its process id is not its own any more
}

// startProcess starts the command. Standard error is the program's affair.
func startProcess(cmd *exec.Cmd, l *link) (*process, error) {
	if cmd == nil {
		return nil, errors.New("there is no command")
	}
	p := &process{link: l, cmd: cmd}
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.stdout, err = cmd.StdoutPipe(); err != nil {
		return nil, errors.Join(err, p.stdin.Close())
	}
	ownGroup(cmd)
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// Connect implements sdk.Transport.
func (p *process) Connect(ctx context.Context) (sdk.Connection, error) {
	pipes := &sdk.IOTransport{Reader: p, Writer: p, MaxLineLength: maxMessage}
	conn, err := pipes.Connect(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = conn
	return &counted{conn, p.link}, nil
}

func (p *process) Read(to []byte) (int, error) { return p.stdout.Read(to) }

// An unwritten error says that nothing was written.
type unwritten struct{ error }

func (p *process) Write(line []byte) (int, error) {
	n, err := p.stdin.Write(line)
	if err != nil && n == 0 {
		err = unwritten{err}
	}
	return n, err
}

// Close closes the standard input of the server, and kills it if it does not end then.
func (p *process) Close() error {
	p.once.Do(func() {
		_ = p.stdin.Close()
		timer := time.AfterFunc(grace, p.strike)
		_ = p.cmd.Wait() // how it ends is its affair
		timer.Stop()
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
	})
	return nil
}

// strike kills the processes of the server.
func (p *process) strike() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		killGroup(p.cmd)
	}
}

func (p *process) kill() {
	p.strike()
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
	_ = p.Close()
}

// ended says how the server has ended before it has listed its tools. The caller has killed what is left of it.
func (p *process) ended(err error) error {
	how := "it has closed its standard output"
	if code := p.cmd.ProcessState.ExitCode(); code >= 0 {
		how = fmt.Sprintf("it has ended with exit status %d", code)
	}
	return fmt.Errorf("%s before it listed its tools; it may say why on standard error, the Stderr of its command: %w",
		how, err)
}

// A counted connection counts what it hears, and notes which calls were sent.
type counted struct {
	sdk.Connection
	link *link
}

func (c *counted) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if err == nil {
		c.link.heard.Add(1)
	}
	return msg, err
}

// Write returns when ctx ends, also if the server does not read.
func (c *counted) Write(ctx context.Context, msg jsonrpc.Message) error {
	sent := new(proof)
	if r, ok := msg.(*jsonrpc.Request); ok && r.Method == callMethod {
		sent = cmp.Or(proofIn(ctx), sent)
	}
	sent.sent.Store(true)
	done := make(chan error, 1)
	go func() { done <- c.Connection.Write(ctx, msg) }()
	select {
	case err := <-done:
		if _, ok := errors.AsType[unwritten](err); ok {
			sent.sent.Store(false)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
