package agent

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/retry"
)

// HTTPError marks err, with which the API of a model has refused a request, by the status and the header of the
// response: whether another attempt may help, and when. It is for authors of a Model. The header may be nil.
//
// A status below 500 is final (retry.Permanent), but for 408, 409, 425 and 429. 413 is ErrTooLong. A Retry-After is
// kept (retry.After), in seconds, as a date, or in the milliseconds of Retry-After-Ms. X-Should-Retry decides, if the
// vendor sends it. An API may say in the body alone that the input is too long, or that an account is used up: mark
// such an error with ErrTooLong or retry.Permanent.
//
// The agent's log line of the failure has the status.
func HTTPError(err error, status int, h http.Header) error {
	if err == nil {
		return nil
	}
	err = &statusError{err, status}
	wait, said := waitOf(h)
	switch should := h.Get("X-Should-Retry"); {
	case status == http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%w: %w", ErrTooLong, err)
	case should == "false" || should != "true" && finalStatus(status):
		return retry.Permanent(err)
	case said:
		return retry.After(err, wait)
	}
	return err
}

// A statusError is an error with the status of the response. Logs may show the status, and not the text.
type statusError struct {
	error
	status int
}

// statusOf returns the status of the response that err comes from; 0 if it says none.
func statusOf(err error) int {
	e, ok := errors.AsType[*statusError](err)
	if !ok {
		return 0
	}
	return e.status
}

// Unwrap returns the error.
func (e *statusError) Unwrap() error { return e.error }

func finalStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < 500
}

// waitOf returns the time that a header asks to wait.
func waitOf(h http.Header) (d time.Duration, ok bool) {
	after := h.Get("Retry-After")
	if at, err := http.ParseTime(after); err == nil {
		return max(time.Until(at), 0), true
	}
	n, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64)
	unit := time.Millisecond
	if err != nil {
		n, err = strconv.ParseFloat(after, 64)
		unit = time.Second
	}
	if err != nil || !(n >= 0) {
		return 0, false
	}
	if n *= float64(unit); n >= math.MaxInt64 {
		return math.MaxInt64, true
	}
	return time.Duration(n), true
}
