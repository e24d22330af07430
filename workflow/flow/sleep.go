package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

// Sleep gives the run back for d. The deadline is fixed by the first call, by the clock of the store.
func (r *Run) Sleep(name string, d time.Duration) error {
	return r.sleep(name, d, workflow.Step{For: d}, parking{after: d})
}

// SleepUntil gives the run back until t. If t is more than workflow.MaxDelay away when it is first called, SleepUntil
// is workflow.ErrInvalid, also later: the journal notes that.
func (r *Run) SleepUntil(name string, t time.Time) error {
	return r.sleep(name, time.Until(t), workflow.Step{Until: t}, parking{due: t})
}

func (r *Run) sleep(name string, d time.Duration, st workflow.Step, p parking) error {
	far := d > workflow.MaxDelay
	if far && p.due.IsZero() { // in each pass
		return fmt.Errorf("%w: sleep %q of %v, and %v is the most", workflow.ErrInvalid, name, d, workflow.MaxDelay)
	}
	v, err := r.enter(name, workflow.KindSleep)
	if err != nil {
		return err
	}
	defer r.leave()
	if v.known && v.row.Outcome == workflow.Done {
		return nil
	}
	st.Name, st.Index, st.Kind, st.Outcome = v.name, v.index, workflow.KindSleep, workflow.Open
	switch {
	case v.known && v.row.Outcome == workflow.Broken:
		return farAway(name, p.due)
	case !v.known && far: // d becomes less with each pass, and what the body does then must not
		err := farAway(name, p.due)
		st.Outcome, st.Until, st.Error = workflow.Broken, time.Time{}, textOf(err)
		r.hold(st)
		return err
	case v.known && r.stay.now().Before(v.row.Until):
		r.park(workflow.Step{}, parking{due: v.row.Until})
	case !v.known && d > 0:
		r.park(st, p)
	}
	st.Outcome, st.For, st.Until = workflow.Done, 0, v.row.Until
	r.hold(st)
	return nil
}

func farAway(name string, t time.Time) error {
	return fmt.Errorf("%w: sleep %q until %v, and %v from now is the most",
		workflow.ErrInvalid, name, t.UTC().Format(time.RFC3339), workflow.MaxDelay)
}

// Wait returns the payload of a signal, or ErrTimeout. The event is name unless an Event is given. A signal that came
// before lies in the mailbox and is taken, unless Strict is given. A signal ends one wait, and no sleep. While the run
// waits, it costs a row, and nothing else.
func Wait[T any](r *Run, name string, opts ...WaitOption) (value T, err error) {
	o := waitOptions{event: name}
	for _, opt := range opts {
		opt.waitOption(&o)
	}
	doc, full, err := r.wait(name, &o)
	if err != nil {
		return value, err
	}
	return value, r.decode(full, doc, &value)
}

func (o *waitOptions) validate() error {
	err := o.invalid
	if err == nil && o.match != nil {
		err = workflow.ValidateValue("match", o.match)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: match: %w", workflow.ErrInvalid, err)
	case o.timeout < 0 || o.timeout > workflow.MaxDelay:
		return fmt.Errorf("%w: timeout of %v", workflow.ErrInvalid, o.timeout)
	}
	return workflow.ValidateEvent(o.event)
}

func (r *Run) wait(name string, o *waitOptions) (doc json.RawMessage, full string, err error) {
	if err := o.validate(); err != nil {
		return nil, "", err
	}
	v, err := r.enter(name, workflow.KindWait)
	if err != nil {
		return nil, "", err
	}
	defer r.leave()
	x := r.stay
	for {
		switch {
		case v.known && v.row.Outcome == workflow.Done:
			return v.row.Output, v.name, nil
		case v.known && v.row.Outcome == workflow.TimedOut:
			return nil, "", ErrTimeout
		}
		s, taken, mail := x.take(&v, o)
		if taken {
			r.hold(workflow.Step{
				Name: v.name, Index: v.index, Kind: workflow.KindWait, Outcome: workflow.Done, Output: s.Output,
				Signal: s.Signal,
			})
			x.signalled(o.event)
			return s.Output, v.name, nil
		}
		p := parking{event: o.event, match: o.match, mail: mail}
		switch {
		case !v.known:
			p.after = o.timeout
			r.park(workflow.Step{
				Name: v.name, Index: v.index, Kind: workflow.KindWait, Outcome: workflow.Open, For: o.timeout,
				Output: x.before(o),
			}, p)
		case v.row.Until.IsZero(), x.now().Before(v.row.Until):
			p.due = v.row.Until
			r.park(workflow.Step{}, p)
		}
		if r.timeOut(&v, mail) {
			return nil, "", ErrTimeout
		}
		v.row, v.known = x.row(v.name) // the timeout may be there: an answer was lost, and then a signal came
	}
}

// timeOut writes that no signal has come in time. It returns false if one has come since this owner looked.
func (r *Run) timeOut(v *verb, mail int64) bool {
	st := workflow.Step{Name: v.name, Index: v.index, Kind: workflow.KindWait, Outcome: workflow.TimedOut}
	err := r.write(workflow.Entry{Steps: append(r.held, st), Mail: mail})
	if err == nil {
		r.held = nil
		r.stay.notes(&st)
		return true
	}
	if !errors.Is(err, workflow.ErrMail) || !r.stay.load() {
		r.exit()
	}
	return false
}
