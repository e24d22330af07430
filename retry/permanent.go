package retry

import "errors"

// Permanent marks an error as final: another attempt cannot help. The result reads like err and wraps err.
// Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanent{err}
}

// IsPermanent reports whether err, or any error that it wraps, was marked by [Permanent].
func IsPermanent(err error) bool {
	_, ok := errors.AsType[*permanent](err)
	return ok
}

type permanent struct{ err error }

// Error returns the text of the marked error.
func (e *permanent) Error() string { return e.err.Error() }

// Unwrap returns the marked error.
func (e *permanent) Unwrap() error { return e.err }
