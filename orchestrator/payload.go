package orchestrator

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/snapshot"
)

// payloadVersion is the version of the documents that this package writes into Payload. A run of another version is not
// touched.
const payloadVersion = 1

// A runPayload is the decoded Payload of a run. A resume knows nothing else of the run.
type runPayload struct {
	V int `json:"v"`

	// Born is that of the session. It tells the lives of a session apart.
	Born      int64       `json:"born"`
	Signature string      `json:"signature"`
	Version   string      `json:"version,omitempty"`
	Input     storedInput `json:"input"`

	// Trace is the traceparent of the first attempt.
	Trace     string          `json:"trace,omitempty"`
	Iteration int             `json:"iteration,omitempty"`
	Next      *storedNext     `json:"next,omitempty"` // what is decided already
	Feedback  string          `json:"feedback,omitempty"`
	Usage     storedUsage     `json:"usage,omitzero"`
	Steps     []storedStep    `json:"steps,omitempty"`
	State     json.RawMessage `json:"state,omitempty"`
}

// A turnPayload is the decoded Payload of a turn, which stands beside its state.
type turnPayload struct {
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

// The parts of a run that are stored beside its payload.
const (
	usagePart  = "usage"   // a storedUsage: the usage since the payload was saved
	statePart  = "state"   // the State of a runPayload, if it is too large to share a document with the input
	fanPart    = "fan"     // a storedFan
	branchPart = "branch " // a storedBranch, by its place in the decision
)

// A storedFan is a fan-out in progress. The finished branches have parts of their own.
type storedFan struct {
	Iteration int        `json:"iteration"`
	Next      storedNext `json:"next"`

	// State is the state that every branch gets; nil if it is the state of the run.
	State json.RawMessage `json:"state,omitempty"`
}

// A storedBranch is a finished branch. It does not run again.
type storedBranch struct {
	Intent string `json:"intent"`
	Change change `json:"change"`
}

// inlineState is how large a state may be to share the payload with the input.
const inlineState = 1 << 20

func storeNext(n Next) storedNext { return storedNext(n) }

func (n storedNext) next() Next { return Next(n) }

// encode writes the same value as json.Marshal, at less cost. json.Marshal spends more on a run than on its state.
func (s runPayload) encode() json.RawMessage {
	w := newWriter(len(s.State) + len(s.Input.Text) + len(s.Input.Data) + 64*len(s.Steps) + 256)
	w.number("v", int64(s.V))
	w.number("born", s.Born)
	w.text("signature", s.Signature)
	w.text("version", s.Version)
	s.Input.write(w)
	w.text("trace", s.Trace)
	w.number("iteration", int64(s.Iteration))
	if s.Next != nil {
		w.open("next")
		s.Next.write(w)
		w.close()
	}
	w.text("feedback", s.Feedback)
	s.Usage.write(w)
	writeSteps(w, s.Steps)
	w.raw("state", s.State)
	return w.end()
}

func (t turnPayload) encode() json.RawMessage {
	w := newWriter(len(t.Input.Text) + len(t.Input.Data) + 64*len(t.Steps) + 64)
	w.number("v", int64(t.V))
	t.Input.write(w)
	t.Usage.write(w)
	writeSteps(w, t.Steps)
	return w.end()
}

func (in storedInput) write(w *writer) {
	w.open("input")
	w.text("text", in.Text)
	w.raw("data", in.Data)
	w.close()
}

func (n storedNext) write(w *writer) {
	if len(n.Intents) > 0 {
		w.openList("to")
		for _, name := range n.Intents {
			w.element(name)
		}
		w.closeList()
	}
	if n.End {
		w.raw("end", json.RawMessage("true"))
	}
	w.text("why", n.Reason)
}

func (u storedUsage) write(w *writer) {
	if u == (storedUsage{}) {
		return
	}
	w.open("usage")
	w.number("in", int64(u.Input))
	w.number("out", int64(u.Output))
	w.fraction("cost", u.Cost)
	w.close()
}

func writeSteps(w *writer, all []storedStep) {
	if len(all) == 0 {
		return
	}
	w.openList("steps")
	for _, s := range all {
		w.openElement()
		s.storedNext.write(w)
		w.number("ms", s.Took)
		s.Usage.write(w)
		w.close()
	}
	w.closeList()
}

// documents returns the payload of s. If the state is larger than inline, the state is a part beside the payload.
func (s runPayload) documents(inline int) (payload json.RawMessage, parts map[string]json.RawMessage) {
	if len(s.State) > inline {
		parts = map[string]json.RawMessage{statePart: s.State}
		s.State = nil
	}
	return s.encode(), parts
}

// readPayload returns the decoded Payload of r. If a later version of this package wrote r, readPayload returns a
// *DriftError. If no version wrote r, readPayload returns a *snapshot.DamagedError.
func readPayload(r snapshot.Run) (runPayload, error) {
	var version struct{ V int }
	if err := json.Unmarshal(r.Payload, &version); err != nil {
		return runPayload{}, damagedRun(r, "payload: %w", unread(err))
	}
	if version.V > payloadVersion {
		return runPayload{}, &DriftError{
			Saved: "payload version " + strconv.Itoa(version.V), Current: strconv.Itoa(payloadVersion),
		}
	}
	var saved runPayload
	err := json.Unmarshal(r.Payload, &saved)
	switch {
	case err != nil:
		return runPayload{}, damagedRun(r, "payload: %w", unread(err))
	case saved.V < 1 || saved.Born < 1 || saved.Iteration < 0:
		return runPayload{}, damagedRun(r, "payload: version %d, born %d, iteration %d",
			saved.V, saved.Born, saved.Iteration)
	case saved.Next != nil && !saved.Next.intact(1):
		return runPayload{}, damagedRun(r, "payload: the decision names no intent")
	}
	return saved, nil
}

// intact reports whether n is a decision for at least so many intents. The end of a turn is never stored as a decision.
func (n storedNext) intact(least int) bool {
	return !n.End && len(distinct(n.Intents)) >= least && !slices.Contains(n.Intents, "")
}

// distinct returns names in their order, each once.
func distinct(names []string) []string {
	all := make([]string, 0, len(names))
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// damagedRun returns the error for a run whose documents no version of this package wrote.
func damagedRun(r snapshot.Run, format string, args ...any) error {
	return snapshot.Damaged(r.Key, fmt.Errorf(format, args...))
}

// unread returns the error for a stored document that could not be decoded. The text of err may repeat what a user
// said.
func unread(err error) error { return errors.New(logtext.Of(logtext.Private(err))) }

// input returns the input of the run. The request id has a column of its own.
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

// runID names the run of an input. With a request id, the name is the same each time the input comes in this life of
// the session. So the input finds its own run, and another input never does.
func runID(k checkpoint.Key, born int64, in Input) string {
	return digest(k.Orchestrator, k.Session, strconv.FormatInt(born, 10),
		in.RequestID, in.Text, compact(in.Data))[:idLen]
}

// idLen is the length of an id that is made of a digest.
const idLen = 32

// digest returns the hex digits of a hash of the parts. No two lists of parts give the same bytes to the hash.
func digest(parts ...string) string {
	h := sha256.New()
	var length []byte
	for _, part := range parts {
		length = append(strconv.AppendInt(length[:0], int64(len(part)), 10), ':')
		h.Write(length)
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// compact drops white space, which a client may send or not.
func compact(data json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return string(data)
	}
	return b.String()
}
