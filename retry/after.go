package retry

import (
	"errors"
	"time"
)

// After marks an error with the time after which another attempt may help, as a Retry-After header says. The result
// reads like err and wraps err. After(nil, d) is nil.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &after{err, d}
}

// AfterOf returns the time that [After] has marked err with, or an error that err wraps. A negative time counts as 0.
func AfterOf(err error) (d time.Duration, ok bool) {
	e, ok := errors.AsType[*after](err)
	if !ok {
		return 0, false
	}
	return max(e.d, 0), true
}

type after struct {
	err error
	d   time.Duration
}

// Error returns the text of the marked error.
func (e *after) Error() string { return e.err.Error() }

// Unwrap returns the marked error.
func (e *after) Unwrap() error { return e.err }
