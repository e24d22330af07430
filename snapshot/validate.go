package snapshot

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/valid"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/turnlog"
)

// The methods below are for the authors of a store. Each refuses, with ErrInvalid, an argument that no backend takes,
// so that the verdict is the same on all backends. A store calls them before it does anything.

// MaxError is how many bytes of a run's Error are kept. A store refuses a longer Error.
const MaxError = 64 << 10

// Validate checks every field of r that is stored.
func (r Run) Validate() error { return r.validate(jsonvalue.Check) }

// validate checks r. judge checks each of its documents.
func (r Run) validate(judge func(doc []byte) error) error {
	if err := r.Key.Validate(); err != nil {
		return err
	}
	err := cmp.Or(valid.ID("run id", r.ID), valid.Optional("request id", r.RequestID), valid.Optional("base", r.Base),
		valid.Text("error", r.Error, MaxError), checkStatus(r.Status), valid.Fence(r.Fence))
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
		if err := valid.ID("part", name); err != nil {
			return err
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

// Damaged returns the error of a stored run that a store could not read because of err.
func Damaged(k Key, err error) *DamagedError {
	d := DamagedError{Key: k, What: "run", Remedy: "repair it, or abandon it or delete the session"}
	return d.Because(err)
}

// maxPause is a year. A run is not meant to wait longer, and no clock arithmetic overflows.
const maxPause = 366 * 24 * time.Hour

// ValidateAdopt checks the arguments of Adopt.
func ValidateAdopt(k Key, f lock.Fence, maxAttempts int) error {
	if maxAttempts < 0 || maxAttempts > math.MaxInt32 {
		return fmt.Errorf("%w: at most %d attempts", ErrInvalid, maxAttempts)
	}
	return cmp.Or(k.Validate(), valid.Fence(f))
}

// ValidateDelete checks the arguments of Delete.
func ValidateDelete(k Key, id string, f lock.Fence) error {
	return cmp.Or(k.Validate(), valid.ID("run id", id), valid.Fence(f))
}

// Validate checks the names and the bounds.
func (q Query) Validate() error {
	if q.Limit < 0 {
		return fmt.Errorf("%w: limit %d", ErrInvalid, q.Limit)
	}
	if q.Status != "" {
		if err := checkStatus(q.Status); err != nil {
			return err
		}
	}
	return cmp.Or(valid.ID("orchestrator", q.Orchestrator), valid.Optional("session", q.Session),
		valid.Optional("after", q.After))
}

// Validate returns an error unless c may go with a Save of r. logs says that the store of runs is joined with a turn
// log. No effect is named twice, and no two entries have one phase and time.
func (c Cargo) Validate(r Run, logs bool) error {
	if err := c.Batch.Validate(r.ID, r.Fence); err != nil {
		return err
	}
	if len(c.Log) > 0 && !logs {
		return fmt.Errorf("%w: entries without a turn log", ErrInvalid)
	}
	type place struct {
		phase string
		at    int64
	}
	taken := make(map[place]bool, len(c.Log))
	for _, e := range c.Log {
		if err := e.Validate(); err != nil {
			return err
		}
		at := place{e.Phase, e.At.UnixMilli()}
		switch {
		case e.Run != r.ID, e.Orchestrator != r.Orchestrator, e.Session != r.Session:
			return fmt.Errorf("%w: an entry of run %q in a save of run %q", ErrInvalid, e.Run, r.ID)
		case e.Phase == turnlog.Started, e.Phase == turnlog.Settled:
			return fmt.Errorf("%w: no Save carries phase %q", ErrInvalid, e.Phase)
		case taken[at]:
			return fmt.Errorf("%w: two entries of phase %q at one time", ErrInvalid, e.Phase)
		}
		taken[at] = true
	}
	return nil
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
		return fmt.Errorf("%w: status %q", ErrInvalid, s)
	}
	return nil
}
