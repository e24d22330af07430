package flow

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/workflow"
)

// Step runs fn, or returns what fn returned before. Name is 1 to 128 of letters, digits, '.', '_' and '-', and unique
// in its branch. The value is what the journal has, decoded from JSON, also the first time. But a json.RawMessage, a
// json.Number and an UnmarshalJSON method get the text of the program then, and later the text of the store. PostgreSQL
// has other spaces, another order of keys, the last of equal keys alone, and no exponents. The values are equal: a zero
// has no sign on any store.
//
// If fn fails, it is called again as the retry policy says: by default 3 attempts in all, after 1 s and 2 s, each ± 20
// %. In between the run is given back. After the last attempt, or an error that retry.Permanent marks, Step returns a
// *StepError. A body that returns it fails its run. Crashes are counted apart: a step that has ended its process five
// times holds its run. A panic of fn is an error of fn. A value that no store takes is a *StepError at once.
func Step[T any](r *Run, name string, fn func(context.Context) (T, error), opts ...StepOption) (T, error) {
	return step[T](r, name, opts, func(ctx context.Context, st *workflow.Step) (bool, error) {
		v, err := fn(ctx)
		if err == nil {
			st.Output, err = encode("the value of step "+name, v)
			err = retry.Permanent(err)
		}
		return false, err
	})
}

// Do is Step for a function without a value.
func Do(r *Run, name string, fn func(context.Context) error, opts ...StepOption) error {
	_, err := Step(r, name, func(ctx context.Context) (any, error) { return nil, fn(ctx) }, opts...)
	return err
}

// An attempt calls the function of a step, and sets Output. written says that the row is in the journal already.
type attempt func(context.Context, *workflow.Step) (written bool, err error)

func step[T any](r *Run, name string, opts []StepOption, fn attempt) (value T, err error) {
	v, err := r.enter(name, workflow.KindStep)
	if err != nil {
		return value, err
	}
	defer r.leave()
	if v.known && v.row.Outcome == workflow.Done {
		return value, r.decode(v.name, v.row.Output, &value)
	}
	if v.known && v.row.Outcome == workflow.Broken {
		return value, &StepError{Step: v.name, Attempts: v.row.Attempts, Text: v.row.Error}
	}
	doc, err := r.attempt(&v, opts, fn)
	if err != nil {
		return value, err
	}
	return value, r.decode(v.name, doc, &value)
}

// attempt calls fn once, and notes its outcome. If fn is to be called again later, the body ends.
func (r *Run) attempt(v *verb, opts []StepOption, fn attempt) (json.RawMessage, error) {
	x := r.stay
	o := stepOptions{policy: x.engine.options.Retry}
	for _, opt := range opts {
		opt.stepOption(&o)
	}
	if until := v.row.Until; v.known && x.now().Before(until) { // another branch has made the run due
		r.park(workflow.Step{}, parking{due: until})
	}
	r.flush()
	st := workflow.Step{
		Name: v.name, Index: v.index, Kind: workflow.KindStep, Outcome: workflow.Done, Attempts: v.row.Attempts + 1,
	}
	written, err := x.call(&st, o.timeout, fn)
	switch {
	case x.lost():
		if err == nil && !written {
			x.late(st)
		}
		r.exit()
	case err == nil:
		if written {
			x.notes(&st)
		} else {
			r.hold(st)
		}
		if x.engine.options.Eager {
			r.flush()
		}
		return st.Output, nil
	case x.overdue():
		r.exit()
	case x.ctx.Err() != nil: // the process shuts down: this was no attempt
		r.park(workflow.Step{}, parking{after: soon})
	}
	return nil, r.failed(st, err, &o)
}

// failed notes that an attempt has failed. If there is another one, the body ends.
func (r *Run) failed(st workflow.Step, err error, o *stepOptions) error {
	shielded := logtext.Shield(err)
	if p, ok := errors.AsType[*panicError](shielded); ok {
		r.stay.log().Error("step panicked", "step", st.Name, "err", textOf(err), "stack", string(p.stack))
	}
	st.Output, st.Error = nil, textOf(err)
	_, unsure := err.(*unsureError) //nolint:errorlint // this very error is meant
	if !unsure && (retry.IsPermanent(shielded) || st.Attempts >= o.policy.Attempts) {
		st.Outcome = workflow.Broken
		r.hold(st)
		if r.stay.engine.options.Eager {
			r.flush()
		}
		return &StepError{Step: st.Name, Attempts: st.Attempts, Text: st.Error, Err: err}
	}
	pause := soon
	if o.policy.Wait != nil {
		pause = max(o.policy.Wait(st.Attempts), soon)
	}
	if after, ok := retry.AfterOf(shielded); ok {
		pause = max(after, soon)
	}
	if unsure { // the policy does not count as long as transactions are cut off
		pause = max(pause, min(time.Second<<min(st.Attempts-1, 6), time.Minute))
	}
	pause = min(pause, workflow.MaxDelay)
	st.Outcome, st.For = workflow.Retrying, pause
	r.park(st, parking{after: pause})
	return nil
}

// call calls the function of a step with a context of its own.
func (x *stay) call(st *workflow.Step, timeout time.Duration, fn attempt) (written bool, err error) {
	ctx := context.WithValue(x.ctx, stepKey{}, stepInfo{x.run.ID + "/" + st.Name, st.Attempts})
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	ctx, span := x.span(ctx, st)
	began := time.Now()
	err = guard(func() (err error) { written, err = fn(ctx, st); return err })
	endStep(span, err)
	st.Took = min(time.Since(began), workflow.MaxDelay)
	return written, err
}

type stepKey struct{}

type stepInfo struct {
	id      string
	attempt int
}

// StepID names the step that ctx is of: the run's id, a slash, and the step's name. It is the same in every attempt and
// process: a key for the other side, and the request id of a turn. It is "" outside a step.
func StepID(ctx context.Context) string {
	info, _ := ctx.Value(stepKey{}).(stepInfo)
	return info.id
}

// Attempt counts the calls of the step that ctx is of, from 1 on. It is 0 outside a step.
func Attempt(ctx context.Context) int {
	info, _ := ctx.Value(stepKey{}).(stepInfo)
	return info.attempt
}

// A Transactor is a store of runs in a database with transactions: postgres.DB has pgx.Tx, sqlite.DB *sql.Tx.
type Transactor[Tx any] interface {
	// WriteTx runs f in a transaction, and writes the entry that f returns in the same transaction. If the run is
	// another owner's by then, verdict says so, and nothing is written. An err that is workflow.ErrAborted says that
	// the transaction has certainly not committed because of what f did: it counts as a failed attempt. After any other
	// err that f did not return, the transaction may have committed, or the database was away.
	WriteTx(ctx context.Context, f func(tx Tx) (workflow.Entry, error)) (verdict, err error)
}

// An unsureError says that a transaction may have committed. The journal knows: the run is given back, and looks there.
type unsureError struct{ err error }

// Error says what was cut off.
func (e *unsureError) Error() string {
	return "flow: the transaction of a step was cut off: " + e.err.Error()
}

// Unwrap returns why.
func (e *unsureError) Unwrap() error { return e.err }

// StepTx runs fn in a transaction of the database that keeps the runs. The journal row commits with what fn writes, so
// that it happens exactly once. The transaction begins before fn, and ends with the journal row. fn must not end it. If
// the database refuses the transaction, as for a constraint that is checked by the commit, the attempt has failed. If
// it is not known whether the transaction has committed, the journal says so: the run looks there, and goes on.
func StepTx[Tx, T any](
	r *Run, name string, db Transactor[Tx], fn func(ctx context.Context, tx Tx) (T, error), opts ...StepOption,
) (T, error) {
	return step[T](r, name, opts, func(ctx context.Context, st *workflow.Step) (written bool, err error) {
		var failed error
		began := time.Now()
		verdict, err := db.WriteTx(ctx, func(tx Tx) (e workflow.Entry, err error) {
			failed = guard(func() error {
				v, err := fn(ctx, tx)
				if err != nil {
					return err
				}
				st.Output, err = encode("the value of step "+name, v)
				return retry.Permanent(err)
			})
			st.Took = time.Since(began)
			return workflow.Entry{
				Run: r.stay.run.ID, Fence: r.stay.fence, Steps: []workflow.Step{*st}, Mail: -1,
			}, failed
		})
		switch {
		case verdict != nil:
			r.stay.lose(verdict)
			return false, verdict
		case failed != nil:
			return false, failed
		case err != nil && !errors.Is(err, workflow.ErrAborted):
			return false, &unsureError{logtext.Shield(err)}
		}
		return err == nil, err
	})
}
