package models

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// ErrRefused means that the model, or a filter of its vendor, does not want to answer what was said. Another attempt
// does not help, but another model may: see agent.Fallback.
var ErrRefused = errors.New("the model refuses to answer")

// An Error is what a vendor says instead of a reply. Its text is one line, without the key.
type Error struct {
	Vendor, Model string

	// Status is that of the HTTP response. If the vendor says it in the middle of a reply, Status is the one that its
	// word for it has elsewhere.
	Status  int
	Code    string // the vendor's word, such as rate_limit_exceeded
	Message string // the vendor's sentence, 500 bytes at most
	Key     string // where the key comes from: OPENAI_API_KEY, say
}

// Error says what the vendor says.
func (e *Error) Error() string {
	status := strings.TrimSpace(fmt.Sprint(e.Status, " ", e.Code))
	switch e.Status {
	case http.StatusUnauthorized: // some vendors repeat a part of the key in the message
		return fmt.Sprintf("%s: the key in %s is refused (%s)", e.Vendor, e.Key, status)
	case http.StatusForbidden:
		return fmt.Sprintf("%s: the key in %s may not ask %s (%s): %s", e.Vendor, e.Key, e.Model, status, e.Message)
	case http.StatusNotFound:
		return fmt.Sprintf("%s: there is no model %q for the key in %s (%s): %s",
			e.Vendor, e.Model, e.Key, status, e.Message)
	}
	return fmt.Sprintf("%s: %s: %s: %s", e.Vendor, e.Model, status, e.Message)
}
