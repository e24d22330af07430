package snapshot

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/lock"
)

// The methods below are for the authors of a store. Each refuses, with ErrInvalid, an argument that no backend takes,
// so that the verdict is the same on all backends. A store calls them before it does anything.

// MaxError is how many bytes of a run's Error are kept. A store refuses a longer Error.
const MaxError = 64 << 10

// Validate checks both names.
func (k Key) Validate() error {
	return invalid(ids.Check("orchestrator", k.Orchestrator), ids.Check("session", k.Session))
}

// Validate checks every field of r that is stored.
func (r Run) Validate() error { return r.validate(jsonvalue.Check) }

// validate checks r. judge checks each of its documents.
func (r Run) validate(judge func(doc []byte) error) error {
	if err := r.Key.Validate(); err != nil {
		return err
	}
	err := invalid(ids.Check("run id", r.ID), ids.CheckOptional("request id", r.RequestID),
		ids.CheckOptional("base", r.Base), ids.CheckText("error", r.Error, MaxError), checkStatus(r.Status),
		checkFence(r.Fence))
	switch {
	case err != nil:
		return err
	case r.Turn < 0 || r.Turn > math.MaxInt32 || r.Attempt < 0 || r.Attempt > math.MaxInt32 || r.Seq < 0:
		return fmt.Errorf("%w: turn %d, attempt %d, seq %d", ErrInvalid, r.Turn, r.Attempt, r.Seq)
	case r.Pause < 0 || r.Pause > maxPause:
		return fmt.Errorf("%w: pause of %v", ErrInvalid, r.Pause)
	}
	return r.validateDocuments(judge)
}

func (r Run) validateDocuments(judge func(doc []byte) error) error {
	if len(r.Payload) > 0 {
		if err := judge(r.Payload); err != nil {
			return fmt.Errorf("%w: payload: %w", ErrInvalid, err)
		}
	}
	for name, doc := range r.Parts {
		if err := ids.Check("part", name); err != nil {
			return invalid(err)
		}
		if err := judge(doc); err != nil {
			return fmt.Errorf("%w: part %q: %w", ErrInvalid, name, err)
		}
	}
	return nil
}

// Intact returns a *DamagedError unless r, which a store has read, is a run as a store writes it. Intact does not judge
// r.Pause: if the clock was set back, the time that is left may be any. Intact does not judge the size of the
// documents. An earlier version may have taken larger documents, and such a run can be ended and deleted.
func (r Run) Intact() error {
	r.Pause = 0
	if err := r.validate(jsonvalue.Stored); err != nil {
		return Damaged(r.Key, err)
	}
	return nil
}

// Damaged returns the error for a stored run that a store could not read because of err.
func Damaged(k Key, err error) *DamagedError {
	reason := strings.TrimPrefix(err.Error(), ErrInvalid.Error()+": ")
	return &DamagedError{Key: k, Reason: strings.TrimPrefix(reason, ErrDamaged.Error()+": ")}
}

// maxPause is a year. A run is not meant to wait longer, and no clock arithmetic overflows.
const maxPause = 366 * 24 * time.Hour

// ValidateAdopt checks the arguments of Adopt.
func ValidateAdopt(k Key, f lock.Fence, maxAttempts int) error {
	if maxAttempts < 0 || maxAttempts > math.MaxInt32 {
		return fmt.Errorf("%w: at most %d attempts", ErrInvalid, maxAttempts)
	}
	if err := k.Validate(); err != nil {
		return err
	}
	return invalid(checkFence(f))
}

// ValidateDelete checks the arguments of Delete.
func ValidateDelete(k Key, id string, f lock.Fence) error {
	if err := k.Validate(); err != nil {
		return err
	}
	return invalid(ids.Check("run id", id), checkFence(f))
}

// Validate checks the names and the bounds.
func (q Query) Validate() error {
	if q.Limit < 0 {
		return fmt.Errorf("%w: limit %d", ErrInvalid, q.Limit)
	}
	if q.Status != "" {
		if err := checkStatus(q.Status); err != nil {
			return invalid(err)
		}
	}
	return invalid(ids.Check("orchestrator", q.Orchestrator), ids.CheckOptional("session", q.Session),
		ids.CheckOptional("after", q.After))
}

// Known reports whether a store takes s. The status of a damaged run may be anything.
func (s Status) Known() bool {
	switch s {
	case Running, Waiting, Suspended, Parked, Ended:
		return true
	}
	return false
}

// person reports whether a run with status s waits for a person.
func (s Status) person() bool { return s == Suspended || s == Parked }

// Selects reports whether Status and Unattended of q select a run with status s. They do if s cannot be known.
func (q Query) Selects(s Status) bool {
	if !s.Known() {
		return true
	}
	return (q.Status == "" || q.Status == s) && !(q.Unattended && s.person())
}

func checkStatus(s Status) error {
	if !s.Known() {
		return fmt.Errorf("status %q", s)
	}
	return nil
}

func checkFence(f lock.Fence) error {
	if f.Epoch <= 0 {
		return fmt.Errorf("epoch %d", f.Epoch)
	}
	return ids.Check("nonce", f.Nonce)
}

func invalid(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return nil
}
