package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/workflow"
)

// The conditions of this package. The package comment says what each means.
var (
	ErrNoStore  = errors.New("ops: no such store")
	ErrNotFound = errors.New("ops: not found")
)

// Stores are where the bots and the workflows of a service keep what they know. Each has to be the one that the
// processes of the service use. What is nil is not looked at.
type Stores struct {
	// Checkpoints is required, unless there are only workflows.
	Checkpoints checkpoint.Store
	Snapshots   snapshot.Store
	Ledger      ledger.Ledger
	TurnLog     turnlog.Log
	Stream      stream.Store
	Inbox       inbox.Store
	Transcripts transcript.Store
	Workflows   workflow.Store

	// Bots returns the names of the bots, as the method Bots of a database does. If it is nil, a look has to name one.
	Bots func(context.Context) ([]string, error)
}

// Options configure a Room. The zero value, and nil, mean the defaults.
type Options struct {
	// Wait is how long Unpark and MakeDue wait for the owner of a session. 0 means 10s, which is longer than a process
	// that was killed keeps a session.
	Wait time.Duration

	// Waiting is the label of the sessions that ask something, and Desk returns the desk of a bot whose states are
	// JSON. Package agent has both for its bots. Without a Desk no question is listed. Its Inbox is that of Stores.
	Waiting string
	Desk    func(*orchestrator.Orchestrator[json.RawMessage], inbox.Store) *approval.Desk[json.RawMessage]

	Logger *slog.Logger // gets the acts, and what the engine logs of them; nil means slog.Default()
}

// A Room is where a person on call looks and acts. Its methods may be called concurrently.
type Room struct {
	stores Stores
	o      Options

	mu   sync.Mutex // protects the following field
	bots map[string]*orchestrator.Orchestrator[json.RawMessage]
}

// New returns a Room over the stores, which stay the caller's. Close ends it.
func New(s Stores, o *Options) *Room {
	if o == nil {
		o = new(Options)
	}
	r := &Room{stores: s, o: *o, bots: make(map[string]*orchestrator.Orchestrator[json.RawMessage])}
	r.o.Logger = cmp.Or(o.Logger, slog.Default())
	r.o.Wait = cmp.Or(o.Wait, 10*time.Second)
	return r
}

// Close ends what the acts have begun, and gives sessions back that an act still owns.
func (r *Room) Close(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []error
	for _, bot := range r.bots {
		all = append(all, bot.Shutdown(ctx))
	}
	return errors.Join(all...)
}

// Bot returns what looks at the sessions of one bot, whether the stores know the name or not. See
// orchestrator.WithoutDefinition. Acts are better called by the Room, which notes the actor.
func (r *Room) Bot(name string) (*orchestrator.Orchestrator[json.RawMessage], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bot := r.bots[name]; bot != nil {
		return bot, nil
	}
	if r.stores.Checkpoints == nil {
		return nil, fmt.Errorf("%w: Checkpoints", ErrNoStore)
	}
	o := &orchestrator.Options{
		Snapshots: r.stores.Snapshots, Ledger: r.stores.Ledger, TurnLog: r.stores.TurnLog, Stream: r.stores.Stream,
		Logger: r.o.Logger, Limits: orchestrator.Limits{LockWait: r.o.Wait},
	}
	if o.Snapshots != nil {
		o.Inbox = r.stores.Inbox
	}
	bot, err := orchestrator.WithoutDefinition(name, r.stores.Checkpoints, o)
	if err == nil {
		r.bots[name] = bot
	}
	return bot, err
}

// Bots returns the names of the bots, in byte order.
func (r *Room) Bots(ctx context.Context) ([]string, error) {
	if r.stores.Bots == nil {
		return nil, fmt.Errorf("%w: Bots: name the bot", ErrNoStore)
	}
	names, err := r.stores.Bots(ctx)
	slices.Sort(names)
	return names, err
}

// named returns the bots that a query is about: the one with this name, or all.
func (r *Room) named(ctx context.Context, name string) ([]string, error) {
	if name != "" {
		return []string{name}, nil
	}
	return r.Bots(ctx)
}

// Find returns the keys of a session in every bot that knows it, or ErrNotFound. A person has the name of a session,
// and rarely that of its bot. It costs two reads for each bot.
func (r *Room) Find(ctx context.Context, session string) (found []store.Key, err error) {
	names, err := r.Bots(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		k := store.Key{Orchestrator: name, Session: session}
		there, err := r.there(ctx, k)
		if err != nil {
			return nil, err
		}
		if there {
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: no bot has a session %q", ErrNotFound, session)
	}
	return found, nil
}

// there reports whether a bot knows a session: it has a turn, an owner or a run, or is damaged.
func (r *Room) there(ctx context.Context, k store.Key) (bool, error) {
	bot, err := r.Bot(k.Orchestrator)
	if err != nil {
		return false, err
	}
	st, err := bot.Inspect(ctx, k.Session)
	if damaged(err) || drifts(err) {
		return true, nil
	}
	return st.Turn >= 0 || st.Owner != "" || st.Run != nil, err
}

// known returns ErrNotFound if a bot does not know a session.
func (r *Room) known(ctx context.Context, k store.Key) error {
	there, err := r.there(ctx, k)
	if err == nil && !there {
		err = fmt.Errorf("%w: bot %q has no session %q", ErrNotFound, k.Orchestrator, k.Session)
	}
	return err
}

func damaged(err error) bool {
	_, ok := errors.AsType[*store.DamagedError](err)
	return ok
}

func away(err error) bool {
	_, ok := errors.AsType[*store.AwayError](err)
	return ok
}

func drifts(err error) bool {
	_, ok := errors.AsType[*orchestrator.DriftError](err)
	return ok
}
