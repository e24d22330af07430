package ledger

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/valid"
	"github.com/holdfast-go/holdfast/lock"
)

// The functions below are for the authors of a ledger. Each refuses, with ErrInvalid, an argument that no backend
// takes, so that the verdict is the same on all backends. A ledger calls them before it does anything.

// The bounds of what a ledger keeps.
const (
	// MaxDocument is how many bytes arguments or a result may have, as the shortest JSON.
	MaxDocument = 1 << 20

	// MaxError is how many bytes an Error may have.
	MaxError = 64 << 10
)

// ValidateAdopt checks the arguments of Adopt.
func ValidateAdopt(runID string, f lock.Fence) error {
	return cmp.Or(valid.ID("run id", runID), valid.Fence(f))
}

// ValidateIssue checks what Issue reads of e.
func (e Effect) ValidateIssue() error {
	return cmp.Or(e.checkIssued(), valid.Document("arguments", e.Args, MaxDocument))
}

// checkIssued checks what Issue reads of e without the document.
func (e Effect) checkIssued() error {
	for _, name := range []struct{ what, text string }{
		{"effect id", e.ID},
		{"orchestrator", e.Orchestrator},
		{"session", e.Session},
		{"run id", e.RunID},
		{"name", e.Name},
	} {
		if err := valid.ID(name.what, name.text); err != nil {
			return err
		}
	}
	for _, name := range []struct{ what, text string }{
		{"intent", e.Intent}, {"each", e.Each}, {"key", e.Key}, {"sum of the arguments", e.ArgsSum},
	} {
		if err := valid.Optional(name.what, name.text); err != nil {
			return err
		}
	}
	switch {
	case e.Iteration < 0 || e.Iteration > math.MaxInt32:
		return fmt.Errorf("%w: iteration %d", ErrInvalid, e.Iteration)
	case e.Class < Ask || e.Class > Verifiable:
		return fmt.Errorf("%w: class %d", ErrInvalid, e.Class)
	}
	return valid.Fence(e.Fence)
}

// Intact returns a *DamagedError unless e, which a ledger has read, is an effect as a ledger writes it. Intact does not
// judge the size of the documents: an earlier version may have had other bounds.
func (e Effect) Intact() error {
	if err := cmp.Or(e.checkIssued(), e.checkFinished()); err != nil {
		return Damaged(e.ID, err)
	}
	return nil
}

// checkFinished checks what Issue does not read.
func (e Effect) checkFinished() error {
	switch e.State {
	case Issued, Completed, Failed, Unknown, Skipped:
	default:
		return fmt.Errorf("state %q", e.State)
	}
	if e.Attempts < 1 {
		return fmt.Errorf("attempt %d", e.Attempts)
	}
	return cmp.Or(
		valid.Text("error", e.Error, MaxError),
		valid.Optional("who answered", e.AnsweredBy),
		checkStored("arguments", e.Args),
		checkStored("result", e.Result),
	)
}

func checkStored(what string, doc []byte) error {
	if doc == nil {
		return nil
	}
	if err := jsonvalue.Stored(doc); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Takes returns the state that the outcome of an attempt gives to a known effect: see Finish. If the outcome is not
// taken, Takes returns "". err is why an answer is not taken.
func (e Effect) Takes(attempt int, o Outcome) (now State, err error) {
	last := attempt == e.Attempts && e.State.Open()
	switch {
	case o.By != "" && !last:
		return "", ErrAnswered
	case o.By != "" && e.State == Issued && !o.Sure:
		return "", lock.ErrHeld
	case o.By == "" && o.State == Completed && e.State != Completed:
		return Completed, nil
	case !last:
		return "", nil
	case o.By == "" && o.State == Failed && e.Unsure:
		return Unknown, nil
	}
	return o.State, nil
}

// clockMargin is how much the clock of the store that issues fences may be ahead of the clock of the ledger.
const clockMargin = time.Minute

// DoubtedAfter returns a moment in microseconds since 1970. If a Raise came after it, and its window is open, the first
// Issue of e is Unknown. If e had Failed before the Raise, so is the next attempt. ok is false if no Raise concerns e.
func (e Effect) DoubtedAfter() (us int64, ok bool) {
	switch {
	case e.Class != Ask && e.Class != Verifiable:
		return 0, false
	case e.Key != "" || e.Began.IsZero():
		return 0, true
	}
	return e.Began.Add(-clockMargin).UnixMicro(), true
}

// WindowOf returns for how long a Raise opens the window, and the Error of an effect that it puts in doubt. doubtFor is
// an option of the ledger: 0 means DefaultDoubt, and less than 0 no window.
func WindowOf(lost time.Time, doubtFor time.Duration) (open time.Duration, why string) {
	why = "the ledger was raised: an earlier attempt may be lost"
	if !lost.IsZero() {
		why += ", with what was written since " + lost.UTC().Format(time.RFC3339)
	}
	return max(0, cmp.Or(doubtFor, DefaultDoubt)), why
}

// Damaged returns the error of a stored effect that a ledger could not read because of err.
func Damaged(id string, err error) *DamagedError {
	return DamagedError{What: "effect", ID: id, Remedy: "repair its row"}.Because(err)
}

// ValidateRecord checks what Record reads of e.
func (e Effect) ValidateRecord() error {
	if e.Class != Pure {
		return fmt.Errorf("%w: Record of class %d", ErrInvalid, e.Class)
	}
	return cmp.Or(e.ValidateIssue(), valid.Document("result", e.Result, MaxDocument))
}

// ValidateFinish checks the arguments of Finish.
func ValidateFinish(id string, attempt int, o Outcome) error {
	err := cmp.Or(valid.ID("effect id", id), valid.Optional("who answered", o.By),
		valid.Text("error", o.Error, MaxError))
	if err != nil {
		return err
	}
	switch o.State {
	case Completed, Failed, Unknown, Skipped:
	default:
		return fmt.Errorf("%w: outcome %q", ErrInvalid, o.State)
	}
	if attempt < 1 || attempt > math.MaxInt32 {
		return fmt.Errorf("%w: attempt %d", ErrInvalid, attempt)
	}
	if o.State != Completed && o.Result != nil {
		return fmt.Errorf("%w: a result of what is %s", ErrInvalid, o.State)
	}
	return valid.Document("result", o.Result, MaxDocument)
}

// Validate checks the names and the bounds.
func (q Query) Validate() error {
	if q.AnsweredWithin < 0 {
		return fmt.Errorf("%w: answered within %v", ErrInvalid, q.AnsweredWithin)
	}
	for _, name := range []struct{ what, text string }{
		{"orchestrator", q.Orchestrator}, {"session", q.Session}, {"run id", q.RunID}, {"effect id", q.ID},
	} {
		if err := valid.Optional(name.what, name.text); err != nil {
			return err
		}
	}
	return nil
}
