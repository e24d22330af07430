package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/argschema"
	"github.com/holdfast-go/holdfast/ledger"
)

// A Tool is something that a model may call. Read, Effect, ClientTool, ChildTool and Output make tools. Of those made
// by hand exactly one of Run, Child and Wait Client is set.
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage // JSON Schema of an object

	// Run does it. Its text goes to the model. An error goes to the model too, unless the outcome is in doubt: it is if
	// the tool is an effect, and neither ledger.NotDone nor Ran marks the error. By the error of Ask it asks somebody.
	Run func(ctx context.Context, c Call) (string, error)

	// Class says what a recovery may do. The zero value is ledger.Ask. A Pure tool changes nothing in the world: it is
	// not recorded, and runs again after a crash.
	Class  ledger.Class
	Verify func(ctx context.Context, c Call) (text string, landed bool, err error) // for ledger.Verifiable

	// Settles is how long the other side may take until Verify sees the effect: see orchestrator.OnceOptions.
	Settles time.Duration

	// Key names the effect in the world: it happens once ever. If it is nil or says "", it happens once for each call.
	Key func(args json.RawMessage) string

	// Wait says who is waited for, if When says so; nil is always.
	Wait Kind
	When func(args json.RawMessage) bool

	// Until is how long an answer is waited for, if it is not 0: then an approval is refused, a question of Ask is
	// declined, and a client's call has the result Otherwise, or has failed if that is "". Of a Child it bounds all
	// that the child waits for, and the child is told. Expire sees to it.
	Until     time.Duration
	Otherwise string

	Child Other // runs a turn of another agent

	// Bind keeps the session of the child: each call in a session is the next turn of one conversation. Without it each
	// call begins one.
	Bind bool

	schema *argschema.Schema
	fault  error // of the constructor; New returns it
}

// Read returns a tool that changes nothing in the world.
func Read[In, Out any](name, description string, f func(context.Context, In) (Out, error)) Tool {
	t := typed[In](name, description)
	t.Class = ledger.Pure
	if f == nil {
		return t
	}
	t.Run = func(ctx context.Context, c Call) (string, error) {
		in, err := decode[In](c.Args)
		if err != nil {
			return "", err
		}
		return text(f(ctx, in))
	}
	return t
}

// An Effect is a tool that changes something in the world.
type Effect[In, Out any] struct {
	Name, Description string

	// Run does it. key names the effect to the other side, and is the same each time. After an error the outcome is
	// unknown, unless ledger.NotDone marks the error.
	Run func(ctx context.Context, key string, in In) (Out, error)

	Class  ledger.Class                                                            // zero: ledger.Ask
	Verify func(ctx context.Context, key string) (out Out, landed bool, err error) // for ledger.Verifiable
	Key    func(In) string                                                         // once ever; nil: once for each call

	Settles time.Duration // how long the other side may take until Verify sees it

	// Approve says whether a person has to agree first. nil is never. Until is how long the person may take, or whoever
	// answers what Run asks by Ask; then it is refused. 0 is for ever.
	Approve func(In) bool
	Until   time.Duration
}

// Tool returns the effect as a Tool.
func (e Effect[In, Out]) Tool() Tool {
	t := typed[In](e.Name, e.Description)
	t.Class, t.Settles, t.Until = e.Class, e.Settles, e.Until
	if e.Run != nil {
		t.Run = func(ctx context.Context, c Call) (string, error) {
			in, err := decode[In](c.Args)
			if err != nil {
				return "", ledger.NotDone(err)
			}
			return text(e.Run(ctx, c.Key, in))
		}
	}
	if e.Verify != nil {
		t.Verify = func(ctx context.Context, c Call) (string, bool, error) {
			out, landed, err := e.Verify(ctx, c.Key)
			if err != nil || !landed {
				return "", false, err
			}
			said, err := text(out, nil)
			return said, true, err
		}
	}
	if e.Key != nil {
		t.Key = func(args json.RawMessage) string {
			in, _ := decode[In](args) // the arguments fit the schema
			return e.Key(in)
		}
	}
	if e.Approve != nil {
		t.Wait = Approval
		t.When = func(args json.RawMessage) bool {
			in, err := decode[In](args)
			return err != nil || e.Approve(in)
		}
	}
	return t
}

// Ran marks an error of a tool that has run, and says itself that it has failed. The model sees the text. Of an effect
// the ledger keeps it as the result: nothing runs again, and nobody is asked. Ran returns nil if err is nil.
func Ran(err error) error {
	if err == nil {
		return nil
	}
	return &ranError{err}
}

// InDoubt marks an error of Run or Verify of an effect: only a person can say whether the effect has happened. Then
// the turn waits for the person, as after any error of an effect of class ledger.Ask. Without the mark the outcome is
// looked for again later. InDoubt returns nil if err is nil.
func InDoubt(err error) error {
	if err == nil {
		return nil
	}
	return &doubtError{err}
}

type doubtError struct{ error }

func (e *doubtError) Unwrap() error { return e.error }

type ranError struct{ error }

func (e *ranError) Unwrap() error { return e.error }

// ClientTool returns a tool that runs at the caller's side.
func ClientTool[In any](name, description string) Tool {
	t := typed[In](name, description)
	t.Wait = Client
	return t
}

// ChildTool returns a tool that runs a turn of another agent, in a session of its own. It has the name of the agent.
func ChildTool(a Other, description string) Tool {
	if a == nil {
		return Tool{fault: errors.New("a ChildTool without an agent")}
	}
	t := typed[childArgs](a.Name(), description)
	t.Child = a
	return t
}

type childArgs struct {
	Input string `json:"input" jsonschema:"what to ask, in plain words, with all that is needed to answer"`
}

// Output returns a Finish whose arguments are a T.
func Output[T any](name, description string) *Tool {
	t := typed[T](name, description)
	return &t
}

// As returns the typed result of a turn that ended with Finish.
func As[T, C any](o *Outcome[C]) (v T, err error) {
	if o.Result == nil {
		return v, errors.New("agent: the turn has no result")
	}
	return decode[T](o.Result)
}

// text returns what the model sees of a value: a string as it is, and anything else as JSON.
func text(v any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	if s, ok := v.(string); ok {
		return s, nil
	}
	raw, err := json.Marshal(v)
	return string(raw), err
}
