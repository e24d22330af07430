package orchestrator

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// payloadVersion is that of what this package writes into Payload. A run of another one is not touched.
const payloadVersion = 1

// A memo is what a run in flight is stored with, and all that a resume knows of it.
type memo struct {
	V         int             `json:"v"`
	Born      int64           `json:"born"` // of the session: tells its lives apart
	Signature string          `json:"signature"`
	Version   string          `json:"version,omitempty"`
	Input     storedInput     `json:"input"`
	Trace     string          `json:"trace,omitempty"` // of the first attempt, as a traceparent
	Iteration int             `json:"iteration,omitempty"`
	Next      *storedNext     `json:"next,omitempty"` // what is decided already
	Feedback  string          `json:"feedback,omitempty"`
	Usage     storedUsage     `json:"usage,omitzero"`
	Steps     []storedStep    `json:"steps,omitempty"`
	Done      []branch        `json:"done,omitempty"` // of the fan-out under way
	State     json.RawMessage `json:"state,omitempty"`
}

// A record is what a settled turn is stored with, beside its state.
type record struct {
	V     int          `json:"v"`
	Input storedInput  `json:"input"`
	Usage storedUsage  `json:"usage,omitzero"`
	Steps []storedStep `json:"steps,omitempty"`
}

type storedInput struct {
	Text string          `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

type storedNext struct {
	Intents []string `json:"to,omitempty"`
	End     bool     `json:"end,omitempty"`
	Reason  string   `json:"why,omitempty"`
}

type storedUsage struct {
	Input  int     `json:"in,omitempty"`
	Output int     `json:"out,omitempty"`
	Cost   float64 `json:"cost,omitempty"`
}

type storedStep struct {
	storedNext
	Took  int64       `json:"ms,omitempty"`
	Usage storedUsage `json:"usage,omitzero"`
}

// A branch of a fan-out that is finished: it does not run again.
type branch struct {
	Intent string          `json:"intent"`
	State  json.RawMessage `json:"state"`
}

func storeNext(n Next) storedNext { return storedNext(n) }

func (n storedNext) next() Next { return Next(n) }

// encode does what json.Marshal does, without scanning the state again, which is most of it.
func (m memo) encode() (json.RawMessage, error) {
	state := m.State
	m.State = nil
	rest, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return splice(rest, "state", state), nil
}

// splice adds a member with a value that is JSON already to an object that is not empty.
func splice(object []byte, name string, value json.RawMessage) json.RawMessage {
	out := make([]byte, 0, len(object)+len(value)+len(name)+4)
	out = append(out, object[:len(object)-1]...)
	out = append(out, `,"`...)
	out = append(out, name...)
	out = append(out, `":`...)
	out = append(out, value...)
	return append(out, '}')
}

// decodeMemo returns a *DriftError for a run that another version of this package wrote.
func decodeMemo(payload json.RawMessage) (memo, error) {
	var version struct{ V int }
	if err := json.Unmarshal(payload, &version); err != nil || version.V != payloadVersion {
		return memo{}, &DriftError{Saved: "payload version " + strconv.Itoa(version.V), Current: strconv.Itoa(payloadVersion)}
	}
	var m memo
	if err := json.Unmarshal(payload, &m); err != nil {
		return memo{}, fmt.Errorf("payload: %w", err)
	}
	return m, nil
}

// input is that of the run, with the request id, which has a column of its own.
func (in storedInput) input(requestID string) Input {
	return Input{RequestID: requestID, Text: in.Text, Data: in.Data}
}

func steps(stored []storedStep) []Step {
	all := make([]Step, len(stored))
	for i, s := range stored {
		all[i] = Step{Next: s.next(), Took: time.Duration(s.Took) * time.Millisecond, Usage: Usage(s.Usage)}
	}
	return all
}

// runID names the run of an input. With a request id it is the same whenever the input comes again in this life of the
// session, so that it finds its own run, and another input never does.
func runID(l checkpoint.Key, born int64, in Input) string {
	h := sha256.New()
	for _, part := range []string{l.Orchestrator, l.Session, strconv.FormatInt(born, 10), in.RequestID, in.Text, compact(in.Data)} {
		writePart(h, part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// compact drops white space that a client may send or not.
func compact(data json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return string(data)
	}
	return b.String()
}
