package orchestrator

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/turnlog"
)

// engine is the part of an Orchestrator that does not depend on S.
type engine struct {
	options Options // with defaults filled in
	log     *slog.Logger

	// identity says which stored rows the bot can use.
	identity identity
	refusals refusals
	stores
	sessions *owner.Process // the sessions that this process owns
	watching
	functions functions
	calls
	meters meters
	life
}

// The stores of an engine, with spans.
type stores struct {
	store checkpoint.Store // as options.Snapshots

	// bare are the stores as the program gave them, which may be a Sweeper, a Watcher or a Joiner.
	bare struct {
		checkpoints checkpoint.Store
		snapshots   snapshot.Store
	}

	// joined appends a turn, records its end in the turn log if there is one, and deletes its run, in one transaction;
	// nil if the stores cannot.
	joined snapshot.SettleEnd
	ledger ledger.Ledger // nil: no effects

	// carry saves a run with effects of it, in one transaction; nil if the stores cannot.
	carry   snapshot.SaveEffects
	turnLog recorder // nil: no turn log

	// carried judges the entries that carry takes; nil if it takes none.
	carried *turnlog.Checked
	respond responder // nil: the turn log has the settled state
	rows    rows
}

// watching is what an engine knows of what is to be recovered.
type watching struct {
	seat string // this orchestrator as a watcher: a process may have several orchestrators of one definition

	// stops is how many processes had stopped when Recoverable was last called.
	stops   atomic.Int64
	lookout lookout
	late    lateSummaries
}

// calls are what the calls of an engine have in common.
type calls struct {
	listeners listeners
	leaders   leaders
}

// A life ends when Shutdown is called, by close.
type life struct {
	serving context.Context
	close   context.CancelFunc
}

// A recorder is the part of a turn log that the engine uses. It never calls Restore.
type recorder interface {
	Record(ctx context.Context, e turnlog.Entry) error
}

// A responder returns what the turn log has as the reply of a settled turn.
type responder func(
	ctx context.Context, session string, cp checkpoint.Checkpoint, force bool,
) (json.RawMessage, error)

func newEngine(id identity, store checkpoint.Store, o Options) *engine {
	o.Limits, o.Compaction = o.Limits.orDefaults(), o.Compaction.orDefaults()
	if o.TurnLog != nil {
		o.Limits.Input = min(o.Limits.Input, mostLogged)
	}
	o.Effects.Linger = cmp.Or(o.Effects.Linger, linger)
	o.Logger = cmp.Or(o.Logger, slog.Default()).With("orchestrator", id.name)
	o.LogError = logtext.By(o.LogError, o.Logger)
	e := &engine{
		options: o, log: o.Logger, identity: id,
	}
	var shut context.CancelCauseFunc
	e.serving, shut = context.WithCancelCause(context.Background())
	e.close = func() { shut(ErrShuttingDown) }
	var err error
	if e.meters, err = newMeters(id.name); err != nil {
		o.Logger.Warn("metrics incomplete", e.why(err))
	}
	e.use(store, o.Snapshots)
	e.functions.log, e.functions.meters, e.functions.patience = o.Logger, &e.meters, o.Limits.SettleTimeout
	e.listeners.report = reporter{log: o.Logger, why: e.why, meters: &e.meters}
	e.listeners.patience = o.Limits.SettleTimeout
	if o.Stream != nil {
		e.listeners.shows = newShows(o.Stream, id.name, &e.listeners.report)
	}
	e.sessions = owner.New(owner.Options{
		Orchestrator: id.name, Rows: &e.rows, Pulse: pulse.Of(store), Locker: o.Locker,
		Logger: o.Logger, Why: e.why,
		Waited:   e.meters.waited,
		LeaseTTL: o.Limits.LeaseTTL, DeadAfter: o.Limits.DeadAfter, LockWait: o.Limits.LockWait,
		SettleTimeout: o.Limits.SettleTimeout,
	})
	e.seat = e.sessions.Name() + "/" + rand.Text()[:4]
	return e
}

// beater returns the checkpoint store as a Beater; nil if it is none.
func (e *engine) beater() lock.Beater {
	b, _ := e.bare.checkpoints.(lock.Beater)
	return b
}

// use sets the stores. snapshots may be nil.
func (e *engine) use(checkpoints checkpoint.Store, snapshots snapshot.Store) {
	e.bare.checkpoints, e.bare.snapshots = checkpoints, snapshots
	silent := &e.meters.silent
	if l := e.options.Ledger; l != nil {
		e.ledger = &spannedLedger{l, silent}
	}
	if l := e.options.TurnLog; l != nil {
		log, ok := l.(*turnlog.Checked)
		if !ok {
			log = turnlog.New(l, nil)
		}
		e.options.TurnLog, e.turnLog = log, &spannedLog{log, silent}
	}
	e.store = &spannedCheckpoints{checkpoints, silent}
	e.rows = rows{e.store, e.identity.name}
	if snapshots == nil {
		return
	}
	e.options.Snapshots = &spannedSnapshots{snapshots, silent}
	e.join(checkpoints, snapshots)
	if runs, ok := snapshots.(snapshot.EffectJoiner); ok && e.options.Ledger != nil {
		e.joinEffects(runs, e.options.Ledger)
	}
}

// joinEffects finds out whether saves of runs can carry effects, and entries of the turn log.
func (e *engine) joinEffects(runs snapshot.EffectJoiner, effects ledger.Ledger) {
	var save snapshot.SaveEffects
	if log, ok := e.options.TurnLog.(*turnlog.Checked); ok {
		if save = runs.JoinEffects(effects, log.Adapter()); save != nil {
			e.carried = log
		}
	}
	if save == nil {
		save = runs.JoinEffects(effects, nil)
	}
	e.carry = e.meters.silent.carry(save)
}

// join finds out whether the stores can settle a turn in one transaction. With a turn log a run is deleted after its
// end was recorded, so that the log has to take part.
func (e *engine) join(checkpoints checkpoint.Store, snapshots snapshot.Store) {
	if log, ok := e.options.TurnLog.(*turnlog.Checked); ok {
		if runs, ok := snapshots.(snapshot.EndJoiner); ok {
			e.joined = e.meters.silent.settle(runs.JoinEnds(checkpoints, log.Adapter()))
		}
		return
	}
	runs, ok := snapshots.(snapshot.Joiner)
	if !ok {
		return
	}
	if joined := runs.Join(checkpoints); joined != nil {
		e.joined = e.meters.silent.settle(func(
			ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
			_ snapshot.End,
		) (bool, error) {
			return joined(ctx, l, cp, o)
		})
	}
}

func (e *engine) key(session string) checkpoint.Key {
	return checkpoint.Key{Orchestrator: e.identity.name, Session: session}
}

// why is the attribute of a log line for err.
func (e *engine) why(err error) slog.Attr { return slog.String("err", e.options.LogError(err)) }

// textOf is why for a line that names the type of an error of the bot. It is empty unless logs may have the text.
func (e *engine) textOf(err error) []any {
	err = logtext.Private(err)
	if shown := e.options.LogError(err); shown != logtext.Of(err) {
		return []any{slog.String("err", shown)}
	}
	return nil
}

// A redactedError is an error of a turn with the text that Effects.Redact leaves of it.
type redactedError struct {
	text string
	err  error
}

func (e redactedError) Error() string { return e.text }

func (e redactedError) Unwrap() error { return e.err }

// read makes a call that only reads, for as long as Limits.SettleTimeout. A server may hang, and the session would be
// held meanwhile: its lease is renewed. An end that is not the end of ctx is errNoAnswer.
func (e *engine) read(ctx context.Context, call func(context.Context) error) error {
	bounded := deadline.In(ctx, e.options.Limits.SettleTimeout, nil)
	defer bounded.Cancel()
	err := call(bounded)
	if err != nil && !owner.Definite(err) && bounded.Err() != nil && ctx.Err() == nil {
		return errNoAnswer
	}
	return err
}

// runs yields the runs in the snapshot store.
func (e *engine) runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	if e.options.Snapshots == nil {
		return func(func(snapshot.Run, error) bool) {}
	}
	return e.options.Snapshots.Runs(ctx, q)
}

// run returns the run of a session in the snapshot store, or snapshot.ErrNotFound. A brief one has no documents.
func (e *engine) run(ctx context.Context, session string, brief bool) (snapshot.Run, error) {
	if e.options.Snapshots == nil {
		return snapshot.Run{}, snapshot.ErrNotFound
	}
	return snapshot.Load(ctx, e.options.Snapshots, snapshot.Query{Key: e.key(session), Brief: brief})
}

// inFlight returns the run of a session in the snapshot store; nil if no run is in flight. A damaged run comes with its
// error.
func (e *engine) inFlight(ctx context.Context, session string) (*snapshot.Run, error) {
	r, err := e.run(ctx, session, false)
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
		return nil, nil
	case err != nil && !ofOneRow(err):
		return nil, err
	}
	return &r, err
}

// hasRun reports whether session has a run in flight, without reading it.
func (e *engine) hasRun(ctx context.Context, session string) (bool, error) {
	_, err := e.run(ctx, session, true)
	if errors.Is(err, snapshot.ErrNotFound) {
		return false, nil
	}
	return true, err
}

// toEnd returns the run in flight, damaged or not; nil if there is none. It is for callers that end the run.
func (e *engine) toEnd(ctx context.Context, session string) (*snapshot.Run, error) {
	found, err := e.inFlight(ctx, session)
	if found != nil {
		return found, nil
	}
	return nil, err
}

// wanted returns the run of session with an id, if it is in flight; nil if there is none. "" means any run.
func (e *engine) wanted(ctx context.Context, session, runID string) (*snapshot.Run, error) {
	found, err := e.toEnd(ctx, session)
	if err != nil || found == nil || runID != "" && found.ID != runID && found.ID != "" {
		return nil, err
	}
	return found, nil
}

// settledBy returns the kept turn that has settled r; nil if there is none. It searches downwards from the given turn,
// and stops below r.Turn: those turns existed before r began.
func (e *engine) settledBy(ctx context.Context, r snapshot.Run, from int) (*checkpoint.Checkpoint, error) {
	for cp, err := range e.store.Turns(ctx, r.Key, from) {
		switch {
		case err != nil:
			return nil, err
		case cp.RunID == r.ID:
			return &cp, nil
		case cp.Turn <= r.Turn:
			return nil, nil
		}
	}
	return nil, nil
}

// ofOneRow reports whether err says that one session, run, turn or effect is damaged. A listing goes on after such an
// error.
func ofOneRow(err error) bool {
	_, ok := errors.AsType[*store.DamagedError](err)
	return ok
}

// errLedger begins the error of a call to the ledger where the snapshot store may have failed as well.
var errLedger = errors.New("the ledger")

// runDamaged reports whether an error of slot.take says that the stored run is damaged, and not an effect of it.
func runDamaged(err error) bool {
	return errors.Is(err, store.ErrDamaged) && !errors.Is(err, errLedger)
}

// ledgerAway reports whether err says that the ledger took no call.
func ledgerAway(err error) bool { return errors.Is(err, store.ErrRefused) && errors.Is(err, errLedger) }

// partAway reports whether err says that the part of a store that has one session is away. A listing goes on after such
// an error. Unlike damage, it says nothing about the session.
func partAway(err error) bool {
	_, ok := errors.AsType[*store.AwayError](err)
	return ok
}

// A gap is what a listing has left out because parts of a store are away.
type gap struct {
	err   error
	known map[string]bool // the texts of err
}

// add reports whether err is of a part that is away, and notes why. It notes each reason once, and no session: the same
// parts give the same text.
func (g *gap) add(err error) bool {
	var why error
	if e, ok := errors.AsType[*store.AwayError](err); ok {
		why = e.Err
	}
	switch {
	case why == nil:
		return false
	case g.known[why.Error()]:
		return true
	case g.err == nil:
		g.known = make(map[string]bool)
		g.err = fmt.Errorf("sessions are left out: %w", why)
	default:
		g.err = fmt.Errorf("%w; %w", g.err, why)
	}
	g.known[why.Error()] = true
	return true
}

// invalid reports whether err says that a store will never take a value.
func invalid(err error) bool { return errors.Is(err, store.ErrInvalid) }
