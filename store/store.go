package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/ids"
)

// A Key names a session. Both parts are 1 to 512 bytes of UTF-8 without U+0000, and no part is a pattern.
type Key struct{ Orchestrator, Session string }

// Validate checks both names.
func (k Key) Validate() error {
	err := cmp.Or(ids.Check("orchestrator", k.Orchestrator), ids.Check("session", k.Session))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// The errors that a store of any contract may return.
var (
	// ErrInvalid refuses an argument that no store takes.
	ErrInvalid = Verdict("invalid argument")
	// ErrSchema names the table and the remedy.
	ErrSchema = Verdict("tables missing or too old")
	// ErrDamaged says that no store wrote the stored data as it is. If it is no *DamagedError, it concerns the whole
	// store: a file is broken, or an index has another type.
	ErrDamaged = Verdict("damaged")

	// ErrRefused says that the server took no write, and that none will appear. The server cannot be reached, or is a
	// read-only standby, full, or starting. The same call may succeed later. ErrRefused is no verdict.
	ErrRefused = errors.New("server took no call")
)

// Verdict returns a sentinel error for what a store may decide. text begins with the name of the contract, and holds
// nothing of the call.
func Verdict(text string) error { return &verdict{text} }

// IsVerdict reports whether err is a verdict, or wraps one: the call changed nothing, and must not be repeated.
func IsVerdict(err error) bool { return errors.Is(err, errVerdict) }

// errVerdict stands for all verdicts. An error that hides what it wraps from errors.Is also hides verdicts.
var errVerdict = errors.New("a verdict")

type verdict struct{ text string }

// Error returns the text.
func (v *verdict) Error() string { return v.text }

// Is reports whether target is the mark.
func (v *verdict) Is(target error) bool { return target == errVerdict }

// A DamagedError is the ErrDamaged of one session, turn, run, effect or item. No other is concerned.
type DamagedError struct {
	// Key names the session. A contract whose rows are found by ID alone leaves it empty.
	Key

	// What is damaged: "session", "run", "effect". ID says which one, unless it is the only one of its session.
	What, ID string

	// Reason says what is wrong with the stored data.
	Reason string

	// Remedy says what a person can do.
	Remedy string
}

// Because returns e with the Reason err. If err is a *DamagedError, it is returned instead.
func (e DamagedError) Because(err error) *DamagedError {
	if known, ok := errors.AsType[*DamagedError](err); ok {
		return known
	}
	e.Reason = err.Error()
	if v, ok := errors.AsType[*verdict](err); ok { // the text says already that it is damaged
		e.Reason = strings.TrimPrefix(e.Reason, v.text+": ")
	}
	return &e
}

// Error names what is damaged, the reason and the remedy.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%v: %s: %s: %s", ErrDamaged, name(e.What, e.ID, e.Session), e.Reason, e.Remedy)
}

// Unwrap returns ErrDamaged.
func (e *DamagedError) Unwrap() error { return ErrDamaged }

// An AwayError says that the part of a store that has one session, or its run, is away: a node of a cluster that is
// down, or that does not answer. Other parts are not concerned. What is stored is as it was, and is found again when
// its part is back.
type AwayError struct {
	Key
	// What is away: "session", "run".
	What string
	// Err names the part, and says why it is away.
	Err error
}

// Error names what cannot be reached, and what Err says.
func (e *AwayError) Error() string {
	return fmt.Sprintf("%s cannot be reached: %v", name(e.What, "", e.Session), e.Err)
}

// Unwrap returns Err.
func (e *AwayError) Unwrap() error { return e.Err }

// name returns what an error is about, such as `run of session "s"`.
func name(what, id, session string) string {
	what = cmp.Or(what, "session")
	if id != "" {
		what += " " + strconv.Quote(id)
	}
	switch {
	case session == "":
		return what
	case what == "session":
		return what + " " + strconv.Quote(session)
	}
	return what + " of session " + strconv.Quote(session)
}

// A Sweeper retires what its store need not keep any longer. How old that is, a store is told when it is made. Any
// number of processes may sweep at once. A store that is no Sweeper keeps nothing, or retires it by itself.
type Sweeper interface {
	// Sweep retires at most limit sessions, runs or effects, and returns how many. 0 means no limit. If a part of the
	// store is away, Sweep retires what it can reach, and returns an error that names the part. A later call looks at
	// the rest again.
	Sweep(ctx context.Context, limit int) (retired int, err error)
}
