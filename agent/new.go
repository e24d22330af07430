package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/telemetry"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Stores are where an agent keeps things. The first three are required.
type Stores struct {
	Checkpoints checkpoint.Store
	Snapshots   snapshot.Store
	Transcript  transcript.Store

	Ledger  ledger.Ledger // required if a tool that runs here is not Pure
	Inbox   inbox.Store   // nil: Stop reaches the runs of this process only
	Stream  stream.Store  // nil: a reader who was cut off begins anew
	TurnLog turnlog.Log
}

// InMemory returns stores that live and die with the process.
func InMemory() Stores {
	return Stores{
		Checkpoints: new(checkpoint.Memory), Snapshots: new(snapshot.Memory), Transcript: new(transcript.Memory),
		Ledger: new(ledger.Memory), Inbox: new(inbox.Memory), Stream: new(stream.Memory),
	}
}

// An Agent runs its sessions. Its methods may be called concurrently.
type Agent[C any] struct {
	def    Definition[C]
	stores Stores
	models []Model
	tools  map[string]*Tool
	listed []Tool
	bot    *orchestrator.Orchestrator[State[C]]
	wishes inbox.Store // for stops: the Inbox, or one of this process
	fan    int         // calls of a reply at a time
	tail   int         // bytes of messages that may ride in the state
	cache  cache
	most   int // bytes of a reply, and of half of the results of its calls: so the state has room for both

	patience time.Duration      // how long a model may ignore the end of its context
	logged   func(error) string // what logs show of an error
	spans    spans

	mu      sync.Mutex                         // protects following field
	running map[string]context.CancelCauseFunc // by run: the model and the Pure tools that are at work
}

// tailBytes is how many bytes of messages ride in the state before they move to the transcript.
const tailBytes = 8 << 10

// New returns an Agent, or an error that names every fault. o may be nil. The stores in it, History and Compaction are
// the agent's, but for Inbox: with that of st, Bot().Enqueue and Handler accept what users say for later, and each call
// reads once more.
func New[C any](d Definition[C], st Stores, o *orchestrator.Options) (*Agent[C], error) {
	a := &Agent[C]{
		def: d, stores: st, models: modelsOf(d.Model), tools: make(map[string]*Tool), tail: tailBytes,
		cache: cache{most: cacheBytes}, running: make(map[string]context.CancelCauseFunc),
		spans: spans{telemetry.Listen(scope)},
	}
	a.def.MaxSteps = cmp.Or(a.def.MaxSteps, 20)
	a.def.MaxRetryAfter = cmp.Or(a.def.MaxRetryAfter, time.Minute)
	a.def.ReplyTimeout = cmp.Or(a.def.ReplyTimeout, 10*time.Minute)
	if a.def.Retry.Attempts == 0 {
		a.def.Retry = retry.Exponential(4, time.Second).Max(time.Minute).Spread(0.2)
	}
	if err := errors.Join(a.faults(), a.prepare()); err != nil {
		return nil, err
	}
	if a.wishes = st.Inbox; a.wishes == nil {
		a.wishes = new(inbox.Memory)
	}
	var opts orchestrator.Options
	if o != nil {
		opts = *o
	}
	opts.Snapshots, opts.Ledger, opts.TurnLog, opts.Stream = st.Snapshots, st.Ledger, st.TurnLog, st.Stream
	opts.History, opts.Compaction = nil, orchestrator.Compaction{}
	opts.Limits.Iterations = max(opts.Limits.Iterations, 2*a.def.MaxSteps+2) // the model and its tools
	if a.def.Compact != nil {
		opts.Limits.Iterations = math.MaxInt32 // as many summaries as the history is long
	}
	if a.fan = opts.Limits.FanOut; a.fan < 1 {
		a.fan = 10
	}
	a.most = cmp.Or(opts.Limits.State, 4<<20) / 8
	a.patience = cmp.Or(opts.Limits.SettleTimeout, 10*time.Second)
	a.logged = logtext.Of
	if opts.Effects.Redact == nil { // else a text may have what Redact hides
		a.logged = logtext.By(opts.LogError, cmp.Or(opts.Logger, slog.Default()))
	}
	var err error
	if a.bot, err = orchestrator.New(a.definition(), st.Checkpoints, &opts); err != nil {
		return nil, err
	}
	return a, nil
}

// faults says what is wrong with the definition and the stores, but for the tools.
func (a *Agent[C]) faults() error {
	var all []error
	d := &a.def
	if !usable(d.Model) {
		all = append(all, errors.New("agent: Model is nil, or a Fallback without a model, or with one that is nil"))
	}
	if c := d.Compact; c != nil && c.Model != nil && !usable(c.Model) {
		all = append(all, errors.New("agent: Compact.Model is a Fallback without a model, or with one that is nil"))
	}
	if a.stores.Checkpoints == nil || a.stores.Snapshots == nil || a.stores.Transcript == nil {
		all = append(all, errors.New("agent: Checkpoints, Snapshots and Transcript are required"))
	}
	if d.MaxSteps < 0 || d.Window < 0 || !(d.MaxCost >= 0) {
		all = append(all, errors.New("agent: MaxSteps, MaxCost and Window must not be negative"))
	}
	if !d.Steer.known() || d.Steer == IntoTurn && a.stores.Inbox == nil {
		all = append(all, fmt.Errorf("agent: Steer %q is not known, or needs an Inbox", d.Steer))
	}
	if d.Retry.Attempts < 0 || d.MaxRetryAfter < 0 || d.ReplyTimeout < 0 {
		all = append(all, errors.New("agent: Retry.Attempts, MaxRetryAfter and ReplyTimeout must not be negative"))
	}
	if d.Compact != nil && d.Window > 0 {
		all = append(all, errors.New("agent: Window and Compact: choose one"))
	}
	return errors.Join(append(all, d.Compact.fault())...)
}

// prepare checks the tools, and makes the lists of them.
func (a *Agent[C]) prepare() error {
	var all []error
	add := func(t Tool, finish bool) {
		err := t.prepare(finish)
		switch {
		case err != nil:
		case a.tools[t.Name] != nil:
			err = errors.New("another tool has this name")
		case t.Run != nil && t.Class != ledger.Pure && a.stores.Ledger == nil:
			err = errors.New("it needs a Ledger")
		}
		if err != nil {
			all = append(all, fmt.Errorf("agent: tool %q: %w", t.Name, err))
			return
		}
		a.spans.tool(&t)
		a.tools[t.Name] = &t
		a.listed = append(a.listed, t)
	}
	for _, t := range a.def.Tools {
		add(t, false)
	}
	if a.def.Finish != nil {
		add(*a.def.Finish, true)
	}
	for _, m := range a.models {
		if c, ok := m.(ToolChecker); ok {
			if err := c.CheckTools(slices.Clone(a.listed)); err != nil {
				all = append(all, fmt.Errorf("agent: the API of the model refuses tools: %w", err))
			}
		}
	}
	return errors.Join(all...)
}

// definition returns the agent as the engine runs it.
func (a *Agent[C]) definition() orchestrator.Definition[State[C]] {
	d := orchestrator.Definition[State[C]]{
		Name: a.def.Name, Version: a.def.Version, Iterate: true, Begin: a.begin, Route: a.route,
		Intents: orchestrator.Intents[State[C]]{
			phaseModel: {Run: a.model, Then: a.route}, phaseTools: {Run: a.toolsOrWait, Then: a.route},
		},
		Respond: func(r *orchestrator.Result[State[C]]) any {
			return map[string]any{"text": r.State.Output, "status": r.State.Status}
		},
		Labels: labels[C], TraceOf: rootOf[C], Expire: a.Expire,
	}
	if a.def.Deliver != nil {
		d.Deliver = func(ctx context.Context, r *orchestrator.Result[State[C]]) error {
			return a.def.Deliver(ctx, outcome(r))
		}
	}
	if a.def.Migrate != nil {
		d.Migrate = a.migrate
	}
	return d
}

// migrate makes a state of a stored one. Only Custom is the program's.
func (a *Agent[C]) migrate(ctx context.Context, c checkpoint.Checkpoint) (s State[C], err error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(c.State, &parts); err != nil {
		return s, err
	}
	c.State = parts["Custom"]
	custom, err := a.def.Migrate(ctx, c)
	if err != nil {
		return s, err
	}
	if parts["Custom"], err = json.Marshal(custom); err != nil {
		return s, err
	}
	whole, err := json.Marshal(parts)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(whole, &s)
}

// Name returns the name of the definition.
func (a *Agent[C]) Name() string { return a.def.Name }

// Bot is the orchestrator underneath: for turnhttp, bootdrain and operators.
func (a *Agent[C]) Bot() *orchestrator.Orchestrator[State[C]] { return a.bot }

func (a *Agent[C]) key(session string) transcript.Key {
	return transcript.Key{Orchestrator: a.def.Name, Session: session}
}
