package turnlog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/valid"
)

// The bounds of an entry.
const (
	// MaxPhase is how many bytes the name of a phase may have.
	MaxPhase = 128

	// MaxState is how many bytes a state may have, as the shortest JSON.
	MaxState = 1 << 20
)

// Validate refuses an entry that no log takes. It is for the authors of a log. It returns ErrPhase for the name of the
// phase, ErrState for the state, and ErrInvalid for the rest. An entry without State has the state null.
func (e Entry) Validate() error {
	return cmp.Or(e.checkNames(), checkPhase(e.Phase), checkState(e.State))
}

// Intact returns a *DamagedError unless e, which a log has read, is an entry as a log writes it. Intact does not judge
// the size of the state.
func (e Entry) Intact() error {
	err := cmp.Or(e.checkNames(), checkPhase(e.Phase))
	if err == nil {
		err = jsonvalue.Stored(e.State)
	}
	if err != nil {
		return Damaged(e.Run, err)
	}
	return nil
}

// Damaged returns the error of a stored run that a log could not read because of err.
func Damaged(run string, err error) *DamagedError {
	return DamagedError{What: "run", ID: run, Remedy: "repair its rows in the turn log"}.Because(err)
}

func (e Entry) checkNames() error {
	for _, name := range []struct{ what, text string }{
		{"run id", e.Run}, {"orchestrator", e.Orchestrator}, {"session", e.Session},
	} {
		if err := valid.ID(name.what, name.text); err != nil {
			return err
		}
	}
	switch {
	case e.Turn < 0 || e.Turn > math.MaxInt32:
		return fmt.Errorf("%w: turn %d", ErrInvalid, e.Turn)
	case outOfRange(e.At):
		return fmt.Errorf("%w: time %v", ErrInvalid, e.At)
	case !e.At.Equal(e.At.Truncate(time.Millisecond)):
		return fmt.Errorf("%w: time %v is no whole millisecond", ErrInvalid, e.At)
	}
	return nil
}

// ValidateRun checks the argument of Restore.
func ValidateRun(run string) error {
	return valid.ID("run id", run)
}

// Validate checks the names and the numbers.
func (q Query) Validate() error {
	for _, name := range []struct{ what, text string }{
		{"orchestrator", q.Orchestrator}, {"session", q.Session}, {"run id", q.AfterRun},
	} {
		if err := valid.Optional(name.what, name.text); err != nil {
			return err
		}
	}
	switch {
	case q.Limit < 0:
		return fmt.Errorf("%w: limit %d", ErrInvalid, q.Limit)
	case q.OlderThan < 0:
		return fmt.Errorf("%w: OlderThan %v", ErrInvalid, q.OlderThan)
	case !q.After.IsZero() && outOfRange(q.After):
		return fmt.Errorf("%w: After %v", ErrInvalid, q.After)
	}
	return nil
}

// ValidatePrune checks the argument of Prune.
func ValidatePrune(before time.Time) error {
	if outOfRange(before) {
		return fmt.Errorf("%w: time %v", ErrInvalid, before)
	}
	return nil
}

// outOfRange reports whether TimeFormat cannot write a time, or a time is before 1970.
func outOfRange(at time.Time) bool { return at.Before(time.UnixMilli(0)) || at.UTC().Year() > 9999 }

func checkPhase(phase string) error {
	if len(phase) > MaxPhase {
		return fmt.Errorf("%w: a name of %d bytes, and %d are the most", ErrPhase, len(phase), MaxPhase)
	}
	if err := ids.Check("name", phase); err != nil {
		return fmt.Errorf("%w: %w", ErrPhase, err)
	}
	return nil
}

// state returns the state. An entry without State has the state null.
func (e Entry) state() json.RawMessage {
	if e.State == nil {
		return json.RawMessage("null")
	}
	return e.State
}

// checkState takes no state for null.
func checkState(state json.RawMessage) error {
	if state == nil {
		return nil
	}
	if err := jsonvalue.CheckWithin(state, jsonvalue.Bounds{Size: MaxState}); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return nil
}

// Same reports whether two states are equal as JSON values. It is for the authors of a log. No state is null.
func Same(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	sameA, errA := jsonvalue.Canonical(a)
	sameB, errB := jsonvalue.Canonical(b)
	return errA == nil && errB == nil && bytes.Equal(sameA, sameB)
}
