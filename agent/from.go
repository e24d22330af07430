package agent

import (
	"context"
	"log/slog"

	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A Caller is the turn that has called a tool. The zero Caller works, and does nothing.
type Caller struct {
	Session, Run string
	Turn         int
	Call         Call

	// Asked is what the tool has asked by Ask, and Answer is what it has got. They are nil in its first run.
	Asked  *Question
	Answer *Answer

	turn tools
}

// tools are the methods of a Turn that a tool may use.
type tools interface {
	Record(ctx context.Context, phase string, state any) error
	Emit(delta string)
	Show(part any) error
	Logger() *slog.Logger
}

type callerKey struct{}

// withCaller returns the context of a tool. In it a client with an oncehttp.Recorder records nothing: the ledger has
// what an effect has come to, and asking again is what Verify is for.
func withCaller[S any](ctx context.Context, t *orchestrator.Turn[S], call Call, l leg) context.Context {
	ctx = oncehttp.Unrecorded(ctx)
	return context.WithValue(ctx, callerKey{}, &Caller{t.Session, t.RunID, t.Index, call, l.asked, l.answer, t})
}

// From returns the Caller of a tool. Outside of a call it returns the zero Caller.
func From(ctx context.Context) *Caller {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return c
	}
	return new(Caller)
}

// Record records in the turn log that the turn has passed a phase: see orchestrator.Turn.Record.
func (c *Caller) Record(ctx context.Context, phase string, state any) error {
	if c.turn == nil {
		return nil
	}
	return c.turn.Record(ctx, phase, state)
}

// Emit sends a token to the listeners of the turn.
func (c *Caller) Emit(delta string) {
	if c.turn != nil {
		c.turn.Emit(delta)
	}
}

// Show sends a part of the reply to the listeners of the turn: see orchestrator.Turn.Show.
func (c *Caller) Show(part any) error {
	if c.turn == nil {
		return nil
	}
	return c.turn.Show(part)
}

// Logger returns the logger of the turn.
func (c *Caller) Logger() *slog.Logger {
	if c.turn == nil {
		return slog.Default()
	}
	return c.turn.Logger()
}
