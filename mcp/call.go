package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
)

// callMethod is the method of a request that runs a tool.
const callMethod = "tools/call"

// A proof says how far the request of a call has come. The wiring finds it in the context.
type proof struct {
	ctx    context.Context // of the call: what happens after its end is not about the call
	sent   atomic.Bool     // something may have been sent
	status atomic.Int64    // of HTTP, or 0
}

type proofKey struct{}

func proofIn(ctx context.Context) *proof {
	p, _ := ctx.Value(proofKey{}).(*proof)
	return p
}

// refusing are the statuses of HTTP with which a server says that it has not taken a request.
var refusing = []int64{400, 401, 403, 404, 405, 413, 415, 429}

// gone reports whether the server has forgotten the session.
func (p *proof) gone() bool { return p.status.Load() == 404 }

// call calls a tool. The package comment says what its errors mean.
func (c *Client) call(ctx context.Context, f *offer, call agent.Call) (string, error) {
	if !c.enter() {
		return "", c.notExecuted(errClosed)
	}
	defer c.calls.Done()
	late := fmt.Errorf("no answer within %v", c.opts.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.Timeout, late)
	defer cancel()
	ctx, closed := context.WithCancelCause(ctx)
	defer context.AfterFunc(c.life, func() { closed(errClosed) })()
	defer closed(nil)
	t, err := resumed(agent.From(ctx))
	if err != nil {
		return "", err
	}
	if next := t.next(); next != nil { // the server wants all answers at once
		return "", next
	}
	for again := true; ; again = false {
		l, err := c.reach(ctx)
		if err != nil {
			return "", c.notExecuted(err)
		}
		if why := f.misfit(l.byName[f.listed.Name], call.Args, &c.opts); why != "" {
			return "", ledger.NotDone(errors.New("not executed: " + why))
		}
		text, p, err := c.send(ctx, l, f, call, t)
		_, started := l.wire.(*process)
		unsent := p.gone() || started && !p.sent.Load()
		if err == nil || !again || !unsent || ctx.Err() != nil {
			return text, err
		}
		l.doomed.Store(true)
	}
}

// send calls the tool over the link.
func (c *Client) send(ctx context.Context, l *link, f *offer, call agent.Call, t *talk) (string, *proof, error) {
	l.active.Add(1)
	defer l.active.Add(-1)
	heard, p := l.heard.Load(), &proof{ctx: ctx}
	params := &sdk.CallToolParams{Name: f.listed.Name, Arguments: json.RawMessage("{}")}
	if len(call.Args) > 0 {
		params.Arguments = call.Args
	}
	if call.Key != "" {
		params.Meta = sdk.Meta{"holdfast/key": call.Key} // for servers that know it
	}
	t.into(params)
	w := &within{talk: t, again: f.tool.Class == ledger.Pure || f.tool.Class == ledger.Idempotent}
	leave := l.enter(w)
	res, err := l.session.CallTool(context.WithValue(ctx, proofKey{}, p), params)
	leave()
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			l.waited(heard)
		}
		if _, answered := errors.AsType[*jsonrpc.Error](err); answered && len(w.asked) > 0 {
			return "", p, w.unanswered()
		}
		return "", p, c.judge(ctx, p, err)
	}
	c.mu.Lock()
	c.failures = 0
	c.mu.Unlock()
	if res.IsError {
		if asks := w.unanswered(); asks != nil {
			return "", p, asks
		}
	}
	text, err := c.result(res)
	return text, p, err
}

// judge says what an error of a call proves.
func (c *Client) judge(ctx context.Context, p *proof, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var refusal *jsonrpc.Error
	switch {
	case !p.sent.Load(), slices.Contains(refusing, p.status.Load()):
		return c.notExecuted(err)
	case !errors.As(err, &refusal): // the connection was lost, or the answer was no answer
	case refusal.Code == sdk.CodeURLElicitationRequired:
		return linked(refusal.Data)
	case refusal.Code == jsonrpc.CodeMethodNotFound, refusal.Code == jsonrpc.CodeInvalidParams:
		text := cut(refusal.Message, c.opts.MaxResult)
		return ledger.NotDone(errors.New("not executed: the server refuses it: " + text))
	}
	return fmt.Errorf("server %s: it may have been executed: %w", c.server, short(err))
}

func (c *Client) notExecuted(err error) error {
	return ledger.NotDone(fmt.Errorf("not executed: server %s cannot be reached: %w", c.server, short(err)))
}
