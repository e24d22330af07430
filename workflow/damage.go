package workflow

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
)

// Intact returns a *DamagedError unless a store wrote the run. It is for authors of a store.
func (r *Run) Intact() error {
	err := cmp.Or(ValidateRun(r.ID), ValidateName(r.Workflow), jsonvalue.Stored(r.Input), inTime(r.Started))
	if err == nil && r.Output != nil {
		err = jsonvalue.Stored(r.Output)
	}
	switch {
	case err != nil:
	case !r.Status.Known():
		err = fmt.Errorf("status %q", r.Status)
	case !r.Hold.known():
		err = fmt.Errorf("hold %q", r.Hold)
	case r.Version < 1:
		err = fmt.Errorf("version %d", r.Version)
	case r.Status.Over() == r.Completed.IsZero():
		err = fmt.Errorf("%s, and completed at %v", r.Status, r.Completed)
	}
	if err != nil {
		return Damaged(r.ID, err)
	}
	return nil
}

func (h Hold) known() bool {
	return h == "" || h == Paused || h == Crashed || h == Drifted || h == HoldUnknown
}

// Intact returns a *DamagedError unless a store wrote the step. It is for authors of a store.
func (s *Step) Intact(run string) error {
	err := cmp.Or(inTime(s.Started), inTime(s.Completed))
	if err == nil && s.Output != nil {
		err = jsonvalue.Stored(s.Output)
	}
	if err == nil && s.Kind != KindSignal {
		err = s.validate()
	}
	if err != nil {
		return DamagedStep(run, s.Name, err)
	}
	return nil
}

// Intact returns a *DamagedError unless a store wrote the subscription. It is for authors of a store.
func (s *Subscription) Intact() error {
	if err := s.Validate(); err != nil {
		return DamagedError{
			What: "subscription", ID: s.ID, Remedy: "repair or delete its row; until then nothing is published",
		}.Because(err)
	}
	return nil
}

// inTime returns an error for a time of which no clock of a store tells.
func inTime(t time.Time) error {
	if year := t.Year(); year < 1970 || year > 9999 {
		return fmt.Errorf("a time in the year %d", year)
	}
	return nil
}

// Damaged returns the error of a run that a store could not read because of err.
func Damaged(run string, err error) *DamagedError {
	return DamagedError{What: "run", ID: run, Remedy: "repair it, or cancel it"}.Because(err)
}

// DamagedStep returns the error of a step of a run that a store could not read because of err.
func DamagedStep(run, name string, err error) *DamagedError {
	d := Damaged(run, err)
	d.Reason = fmt.Sprintf("step %q: %s", name, d.Reason)
	return d
}
