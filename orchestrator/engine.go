package orchestrator

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
)

// engine is the part of an Orchestrator that does not depend on S.
type engine struct {
	options Options // with defaults filled in
	log     *slog.Logger
	process string // unique for each start of a process

	// identity says which stored rows the bot can use.
	identity identity
	refusals refusals
	store    checkpoint.Store // with spans, as options.Snapshots

	// bare are the stores as the program gave them, which may be a Sweeper, a Watcher or a Joiner.
	bare struct {
		checkpoints checkpoint.Store
		snapshots   snapshot.Store
	}

	// joined appends a turn and deletes its run in one transaction; nil if the stores cannot.
	joined   snapshot.Settle
	ledger   ledger.Ledger  // nil: no effects
	sessions *owner.Process // the sessions that this process owns

	// stops is how many processes had stopped when Recoverable was last called.
	stops     atomic.Int64
	lookout   lookout
	functions functions
	listeners listeners
	leaders   leaders
	late      lateSummaries
	meters    meters
}

func newEngine(id identity, store checkpoint.Store, o Options) *engine {
	o.Limits, o.Compaction = o.Limits.orDefaults(), o.Compaction.orDefaults()
	o.Logger = cmp.Or(o.Logger, slog.Default()).With("orchestrator", id.name)
	if o.LogError == nil {
		o.LogError = logtext.Of
	}
	host, _ := os.Hostname()
	e := &engine{
		options: o, log: o.Logger, identity: id,
		process: fmt.Sprintf("%.64s/%d/%s", strings.ToValidUTF8(host, "?"), os.Getpid(), rand.Text()[:8]),
	}
	var err error
	if e.meters, err = newMeters(id.name); err != nil {
		o.Logger.Warn("metrics incomplete", e.why(err))
	}
	e.use(store, o.Snapshots)
	e.functions.log, e.functions.meters, e.functions.patience = o.Logger, &e.meters, o.Limits.SettleTimeout
	e.listeners.report = reporter{log: o.Logger, why: e.why, meters: &e.meters}
	e.listeners.patience = o.Limits.SettleTimeout
	e.sessions = owner.New(owner.Options{
		Orchestrator: id.name, Name: e.process, Store: e.store, Beater: e.beater(), Locker: o.Locker,
		Logger: o.Logger, Why: e.why,
		Waited:   e.meters.waited,
		LeaseTTL: o.Limits.LeaseTTL, DeadAfter: o.Limits.DeadAfter, LockWait: o.Limits.LockWait,
		SettleTimeout: o.Limits.SettleTimeout,
	})
	return e
}

// beater returns the checkpoint store as a Beater; nil if it is none.
func (e *engine) beater() checkpoint.Beater {
	b, _ := e.bare.checkpoints.(checkpoint.Beater)
	return b
}

// use sets the stores. snapshots may be nil.
func (e *engine) use(checkpoints checkpoint.Store, snapshots snapshot.Store) {
	e.bare.checkpoints, e.bare.snapshots = checkpoints, snapshots
	silent := &e.meters.silent
	if l := e.options.Ledger; l != nil {
		e.ledger = &spannedLedger{l, silent}
	}
	e.store = &spannedCheckpoints{checkpoints, silent}
	if snapshots == nil {
		return
	}
	e.options.Snapshots = &spannedSnapshots{snapshots, silent}
	if runs, ok := snapshots.(snapshot.Joiner); ok {
		if joined := runs.Join(checkpoints); joined != nil {
			e.joined = silent.settle(joined)
		}
	}
}

func (e *engine) key(session string) checkpoint.Key {
	return checkpoint.Key{Orchestrator: e.identity.name, Session: session}
}

// why is the attribute of a log line for err.
func (e *engine) why(err error) slog.Attr { return slog.String("err", e.options.LogError(err)) }

// runs yields the runs in the snapshot store.
func (e *engine) runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	if e.options.Snapshots == nil {
		return func(func(snapshot.Run, error) bool) {}
	}
	return e.options.Snapshots.Runs(ctx, q)
}

// inFlight returns the run of a session in the snapshot store; nil if no run is in flight. A damaged run comes with its
// error.
func (e *engine) inFlight(ctx context.Context, session string) (*snapshot.Run, error) {
	for r, err := range e.runs(ctx, snapshot.Query{Key: snapshot.Key(e.key(session))}) {
		if err != nil && !ofOneRow(err) {
			return nil, err
		}
		return &r, err
	}
	return nil, nil
}

// hasRun reports whether session has a run in flight, without reading it.
func (e *engine) hasRun(ctx context.Context, session string) (bool, error) {
	for _, err := range e.runs(ctx, snapshot.Query{Key: snapshot.Key(e.key(session)), Brief: true}) {
		return true, err
	}
	return false, nil
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

// settledBy reports whether a kept turn is the settled turn of r. It searches downwards from the given turn, and stops
// below r.Turn: those turns existed before r began.
func (e *engine) settledBy(ctx context.Context, r snapshot.Run, from int) (bool, error) {
	for cp, err := range e.store.Turns(ctx, checkpoint.Key(r.Key), from) {
		switch {
		case err != nil:
			return false, err
		case cp.RunID == r.ID:
			return true, nil
		case cp.Turn <= r.Turn:
			return false, nil
		}
	}
	return false, nil
}

// ofOneRow reports whether err says that one session, run, turn or effect is damaged. A listing goes on after such an
// error.
func ofOneRow(err error) bool {
	if _, ok := errors.AsType[*checkpoint.DamagedError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*snapshot.DamagedError](err); ok {
		return true
	}
	_, ok := errors.AsType[*ledger.DamagedError](err)
	return ok
}

// invalid reports whether err says that a store will never take a value.
func invalid(err error) bool {
	return errors.Is(err, checkpoint.ErrInvalid) || errors.Is(err, snapshot.ErrInvalid)
}
