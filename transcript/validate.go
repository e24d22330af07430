package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/valid"
	"github.com/holdfast-go/holdfast/message"
)

// The bounds of a transcript.
const (
	MaxMessages = 4096     // of an entry
	MaxEntry    = 16 << 20 // bytes of an entry, as JSON
	MaxSpans    = 4096     // of a call
	MaxNumber   = 1 << 53  // of a message; every database, and every reader of JSON, has it exactly
)

// EncodeEntry checks the arguments of Append, and returns the messages as a store keeps them. It is for the authors of
// a store.
func EncodeEntry(k Key, id string, msgs []message.Message) (body []byte, err error) {
	if err := cmp.Or(k.Validate(), valid.ID("id", id)); err != nil {
		return nil, err
	}
	if n := len(msgs); n == 0 || n > MaxMessages {
		return nil, fmt.Errorf("%w: %d messages, and an entry has 1 to %d", ErrInvalid, n, MaxMessages)
	}
	body, err = json.Marshal(msgs)
	if err == nil {
		err = jsonvalue.CheckWithin(body, jsonvalue.Bounds{Size: MaxEntry})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: messages: %w", ErrInvalid, err)
	}
	return body, nil
}

// ValidateRead checks the arguments of Read and Trim.
func ValidateRead(k Key, spans []Span) error { return cmp.Or(k.Validate(), checkSpans(spans)) }

// ValidateCopy checks the arguments of Copy.
func ValidateCopy(from, to Key, spans []Span) error {
	if from == to {
		return fmt.Errorf("%w: a copy to the session itself", ErrInvalid)
	}
	return cmp.Or(from.Validate(), to.Validate(), checkSpans(spans))
}

func checkSpans(spans []Span) error {
	if len(spans) > MaxSpans {
		return fmt.Errorf("%w: %d spans, and %d are the most", ErrInvalid, len(spans), MaxSpans)
	}
	for _, s := range spans {
		if s != (Span{}) && (s.From < 1 || s.Through < s.From || s.Through > MaxNumber) {
			return fmt.Errorf("%w: span %d to %d", ErrInvalid, s.From, s.Through)
		}
	}
	return nil
}
