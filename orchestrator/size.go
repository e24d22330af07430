package orchestrator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/turnlog"
)

// The largest values of Limits.Input and Limits.State. A store accepts documents of 16 MiB, nested 1,000 deep. A
// document holds more than the input or the state: the decision, the steps, the fields around it.
const (
	mostInput = jsonvalue.MaxSize - 1<<20
	mostState = jsonvalue.MaxSize - 1<<20
	mostDepth = jsonvalue.MaxDepth - 2
)

// bounds returns the bounds of a document with a limit, if a text of so many bytes is stored beside the document.
func bounds(limit, text int) jsonvalue.Bounds {
	const around = 4_000_000 // what the steps and the fields weigh
	return jsonvalue.Bounds{
		Size: limit, Depth: mostDepth,
		Memory: min(jsonvalue.DefaultMemory(limit), jsonvalue.MaxMemory-around-jsonvalue.PerByte*text),
	}
}

// check refuses an input that a store would not keep, or would not give back as it was, or that is larger than
// Limits.Input.
func (in Input) check(session string, limit int) error {
	if err := checkSession(session); err != nil {
		return err
	}
	if err := ids.CheckOptional("request id", in.RequestID); err != nil {
		return &InputError{"request id", err.Error()}
	}
	if err := ids.CheckOptional("by", in.By); err != nil {
		return &InputError{"by", err.Error()}
	}
	if !in.Origin.known() {
		return &InputError{"origin", fmt.Sprintf("%q is none", string(in.Origin))}
	}
	if !isWord(in.Kind) {
		return &InputError{"kind", fmt.Sprintf("longer than %d bytes, or not of letters, digits and ._-", mostKind)}
	}
	if err := ids.CheckText("text", in.Text, max(limit, len(in.Text))); err != nil {
		return &InputError{"text", err.Error()}
	}
	size := 0
	if in.Text != "" {
		size = jsonvalue.TextSize(in.Text)
	}
	if size > limit {
		return &InputError{"text", fmt.Sprintf("%d bytes, and Limits.Input is %d", size, limit)}
	}
	if len(in.Data) == 0 {
		return nil
	}
	return in.checkData(size, limit)
}

// mostKind is how long Input.Kind may be.
const mostKind = 64

// isWord reports whether kind is a Kind, or "".
func isWord(kind string) bool {
	return len(kind) <= mostKind && !strings.ContainsFunc(kind, func(r rune) bool {
		return r > '~' || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
	})
}

// checkData checks the data of an input. text is the size of the input's text.
func (in Input) checkData(text, limit int) error {
	if err := jsonvalue.CheckWithin(in.Data, bounds(limit, text)); err != nil {
		reason := err.Error()
		if json.Valid(in.Data) {
			reason += fmt.Sprintf(" (Limits.Input is %d, and the depth at most %d)", limit, mostDepth)
		}
		return &InputError{"data", reason}
	}
	size, err := jsonvalue.Size(in.Data)
	switch {
	case err != nil:
		return &InputError{"data", err.Error()}
	case text+size > limit:
		return &InputError{"text and data", fmt.Sprintf("%d bytes, and Limits.Input is %d", text+size, limit)}
	case text+len(in.Data) > 2*limit: // stores refuse a document that is mostly white space and escapes
		const format = "%d bytes, white space and escapes included, are more than %d (Limits.Input is %d)"
		return &InputError{"text and data", fmt.Sprintf(format, text+len(in.Data), 2*limit, limit)}
	}
	return nil
}

// mostLogged bounds an input that a turn log keeps, beside its names.
const mostLogged = turnlog.MaxState - 16<<10

// checkSession checks the session of a call that has no input.
func checkSession(session string) error {
	if err := ids.Check("session", session); err != nil {
		return &InputError{"session", err.Error()}
	}
	return nil
}

// ungrown is the share of a limit up to which a document without long exponents is not counted. Escapes do not make it
// larger than the limit, and neither do numbers: 1e999 counts 1,000 bytes.
const ungrown = 256

// certain reports whether a document is within a limit, without counting it.
func certain(doc []byte, limit int) bool { return len(doc) <= limit/ungrown && !longExponent(doc) }

// longExponent reports whether a number may have an exponent of four digits: 1e131071 counts 131,072 bytes. Text that
// looks like such a number counts as one.
func longExponent(doc []byte) bool {
	for i, c := range doc {
		if c|0x20 != 'e' || i == 0 || !digit(doc[i-1]) {
			continue
		}
		digits := bytes.TrimLeft(doc[i+1:], "+-")
		if len(digits) >= 4 && digit(digits[0]) && digit(digits[1]) && digit(digits[2]) && digit(digits[3]) {
			return true
		}
	}
	return false
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// encodeState returns the state as it is saved and settled, or a *StateError.
func encodeState[S any](state *S, limit int) ([]byte, error) {
	raw, err := encode(state)
	if err != nil {
		return nil, err
	}
	return raw, fits("state", raw, limit)
}

// fits returns a *StateError for a state, or items, that are larger than the limit. If no store accepts them for
// another reason, the store refuses them.
func fits(of string, state []byte, limit int) error {
	if certain(state, limit) {
		return nil
	}
	err := jsonvalue.CheckWithin(state, bounds(limit, 0))
	if err == nil {
		return nil
	}
	size, bad := jsonvalue.Size(state)
	if bad != nil {
		return nil //nolint:nilerr // the store says so
	}
	return &StateError{Of: of, Size: size, Limit: limit, Err: err}
}
