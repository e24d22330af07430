package chaostest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A State is a log of the inputs that made it. The newest turn shows what became of each input, also when older turns
// are pruned.
type State struct {
	Notes []string // see note
	// Left and Right are the input of the last fan-out.
	Left, Right string
}

// note returns the note of an iteration. It names the call that ran the iteration.
func note(text string, iteration int, by *call) string {
	return fmt.Sprintf("%s/%d by #%d", text, iteration, by.number())
}

// read returns the input and the iteration of a note.
func read(note string) (text string, iteration int) {
	text, rest, _ := strings.Cut(note, "/")
	done, _, _ := strings.Cut(rest, " ")
	iteration, _ = strconv.Atoi(done)
	return text, iteration
}

// Short names.
type (
	turn   = orchestrator.Turn[State]
	result = orchestrator.Result[State]
	engine = orchestrator.Orchestrator[State]
)

var (
	errBot  = errors.New("the bot has failed")
	errGone = errors.New("the client is gone")
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// The first letter of an input says how many iterations its turn takes.
const (
	short = 'a' // one note
	long  = 'b' // two notes
	wide  = 'c' // a note, two branches at once, a note
)

// follows returns what runs after an iteration.
func follows(text string, iteration int) orchestrator.Next {
	switch {
	case text[0] == long && iteration == 0, text[0] == wide && iteration == 1:
		return orchestrator.To("note")
	case text[0] == wide && iteration == 0:
		return orchestrator.To("left", "right")
	}
	return orchestrator.End
}

// notesOf returns the iterations of an input that leave a note.
func notesOf(text string) []int {
	switch text[0] {
	case long:
		return []int{0, 1}
	case wide:
		return []int{0, 2}
	}
	return []int{0}
}

// definition returns the definition of the bot for this process.
func (p *process) definition() orchestrator.Definition[State] {
	d := orchestrator.Definition[State]{
		Name: p.simulation.name, First: "note", Iterate: true,
		Intents: orchestrator.Intents[State]{
			"note": p.intent("note", func(c *call, t *turn) {
				t.State.Notes = append(t.State.Notes, note(t.Input.Text, t.Iteration, c))
			}),
			"left":  p.intent("left", func(_ *call, t *turn) { t.State.Left = t.Input.Text }),
			"right": p.intent("right", func(_ *call, t *turn) { t.State.Right = t.Input.Text }),
		},
		Evaluate: func(_ context.Context, t *turn) (orchestrator.Next, error) {
			return follows(t.Input.Text, t.Iteration), nil
		},
	}
	if p.simulation.plan.begins {
		d.Begin = func(ctx context.Context, t *turn) error {
			return p.function(ctx, message{op: "hook Begin", session: t.Session, about: []any{runName(t.RunID)}})
		}
	}
	if p.simulation.plan.delivers {
		d.Deliver = p.deliver
	}
	return d
}

func (p *process) intent(name string, run func(*call, *turn)) orchestrator.Intent[State] {
	return orchestrator.Intent[State]{Run: func(ctx context.Context, t *turn) error {
		m := message{op: "intent " + name, session: t.Session, branch: name != "note"}
		m.about = []any{runName(t.RunID), t.Iteration}
		if err := p.function(ctx, m); err != nil {
			return err
		}
		run(callOf(ctx), t)
		return nil
	}}
}

// deliver notes when Deliver was called, and when it returned nil.
func (p *process) deliver(ctx context.Context, r *result) error {
	d := p.simulation.handedOver(callOf(ctx), r)
	m := message{op: "hook Deliver", session: r.Session, about: []any{runName(r.RunID), "turn", r.Turn}}
	m.ended = func(err error) { p.simulation.returned(d, err) }
	return p.function(ctx, m)
}

// function is a running function of the bot. The scheduler decides when it returns, and what.
func (p *process) function(ctx context.Context, m message) error {
	m.call = callOf(ctx)
	if m.ended == nil {
		m.ended = func(error) {}
	}
	return p.exchange(ctx, &m).err
}

// everybody is a Locker that grants every key to every caller, as if it had forgotten its grants. With a Locker, the
// engine leaves out a pause whose length is random.
type everybody struct{}

var _ lock.Locker = everybody{}

// Lock grants the key at once.
func (everybody) Lock(ctx context.Context, _ string) (context.Context, func(), error) {
	held, cancel := context.WithCancel(ctx)
	return held, cancel, nil
}

// TryLock grants the key at once.
func (e everybody) TryLock(ctx context.Context, key string) (context.Context, func(), error) {
	return e.Lock(ctx, key)
}
