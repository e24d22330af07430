package orchestrator

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The versions of the documents that this package writes into Payload. A process leaves a run of a later version alone.
const (
	payloadVersion = 1

	// itemsVersion is for a run that has decided to run for items. A process that knows no items must not take it up.
	itemsVersion = 2
)

// A runPayload is the decoded Payload of a run. A resume knows nothing else of the run.
type runPayload struct {
	// V is the version. A run that had items once keeps itemsVersion.
	V int `json:"v"`

	// Born is that of the session. It tells the lives of a session apart.
	Born      int64       `json:"born"`
	Signature string      `json:"signature"`
	Version   string      `json:"version,omitempty"`
	Input     storedInput `json:"input"`

	// Anew is the epoch of the claim that began the run, if its input has a request id: the run may have failed before
	// under the same id. Failures counts the attempts that the bot has failed since: see failuresPart.
	Anew     int64 `json:"anew,omitempty"`
	Failures int   `json:"failures,omitempty"`

	// Trace is the traceparent of the first attempt.
	Trace     string      `json:"trace,omitempty"`
	Iteration int         `json:"iteration,omitempty"`
	Next      *storedNext `json:"next,omitempty"` // what is decided already

	// Asked are effects that Route has asked for on its way to Next, and that were open or answered for. Route is not
	// asked again: see book.askedBy.
	Asked    []string `json:"asked,omitempty"`
	Feedback string   `json:"feedback,omitempty"`

	// Usage is the usage up to the beginning of the iteration. See usagePart.
	Usage storedUsage  `json:"usage,omitzero"`
	Steps []storedStep `json:"steps,omitempty"`

	// Doubt are the ids of the effects that a suspended run waits for.
	Doubt []string `json:"doubt,omitempty"`

	// Unasked says that these effects are answered, and that the code has not asked for them: see allAsked.
	Unasked bool `json:"unasked,omitempty"`

	// Started is the time of turnlog.Started, and Logged that of the last entry when this was saved, in milliseconds; 0
	// without a turn log.
	Started int64           `json:"started,omitempty"`
	Logged  int64           `json:"logged,omitempty"`
	State   json.RawMessage `json:"state,omitempty"`
}

// A turnPayload is the decoded Payload of a turn, which stands beside its state.
type turnPayload struct {
	V     int          `json:"v"`
	Input storedInput  `json:"input"`
	Usage storedUsage  `json:"usage,omitzero"`
	Steps []storedStep `json:"steps,omitempty"`

	// Put says that the turn is one of Put, which had no run: see visit.repeatPut.
	Put bool `json:"put,omitempty"`

	// Settled is the time of turnlog.Settled, in milliseconds; 0 without a turn log.
	Settled int64 `json:"settled,omitempty"`

	// Failed is the type of the error if Definition.OnFail has settled the turn.
	Failed string `json:"failed,omitempty"`

	// Labels is the labelsDigest of the session's labels; "" if the definition has no Labels.
	Labels string `json:"labels,omitempty"`
}

type storedInput struct {
	Text string          `json:"text,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`

	// Origin, By and Kind are missing in what an earlier version has stored.
	Origin Origin `json:"from,omitempty"`
	By     string `json:"by,omitempty"`
	Kind   string `json:"kind,omitempty"`
}

type storedNext struct {
	Intents []string `json:"to,omitempty"`

	// Each counts the items of the intents that run for items.
	Each   map[string]int `json:"each,omitempty"`
	End    bool           `json:"end,omitempty"`
	Reason string         `json:"why,omitempty"`

	// items are the items of a decision. They are a part of their own; see itemsPart. A step has none.
	items itemLists
}

// itemLists are the items of a decision, by intent.
type itemLists map[string][]json.RawMessage

type storedUsage struct {
	Input  int     `json:"in,omitempty"`
	Output int     `json:"out,omitempty"`
	Cost   float64 `json:"cost,omitempty"`
}

// A spent is the usage of a run so far.
type spent struct {
	storedUsage

	// Calls are the calls of tools since the iteration began, with what of their usage is counted. A resume makes them
	// again.
	Calls map[string]storedUsage `json:"calls,omitempty"`
}

// spent returns the usage as it is saved.
func (m *meter) spent() spent {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := spent{storedUsage: stored(m.used)}
	for id, u := range m.counted {
		if s.Calls == nil {
			s.Calls = make(map[string]storedUsage, len(m.counted))
		}
		s.Calls[id] = stored(u)
	}
	return s
}

// resume goes on from what an earlier owner of the run has saved.
func (m *meter) resume(s spent) {
	m.used = s.usage()
	for id, u := range s.Calls {
		if m.counted == nil {
			m.counted = make(map[string]Usage, len(s.Calls))
		}
		m.counted[id] = u.usage()
	}
}

func (s spent) same(t spent) bool {
	return s.storedUsage == t.storedUsage && maps.Equal(s.Calls, t.Calls)
}

type storedStep struct {
	storedNext
	Took  int64       `json:"ms,omitempty"`
	Usage storedUsage `json:"usage,omitzero"`
}

// The parts of a run that are stored beside its payload.
const (
	failuresPart = "failures"  // the Failures of a runPayload, if they are not those of the payload
	usagePart    = "usage"     // a spent: the usage so far, if it is not that of the payload
	statePart    = "state"     // the State of a runPayload, if it is too large to share a document with the input
	itemsPart    = "items"     // the itemLists of the decision in a runPayload
	fanPart      = "fan"       // a storedFan
	fanItems     = "fan items" // the itemLists of a storedFan, unless the payload's decision has the same
	branchPart   = "branch "   // a storedBranch, by its place in the decision
	endPart      = "end"       // a storedEnd

	// failurePart is the kind of the last failure, as logs name it: see errorType.
	failurePart = "failure"
)

// A storedEnd is how a run has ended that has not settled, for the turn log. The reason is the Error of the run.
type storedEnd struct {
	At        int64  `json:"at"` // of turnlog.Settled, in milliseconds
	TurnState string `json:"turnState"`
}

// A storedFan is a fan-out in progress. The finished branches have parts of their own.
type storedFan struct {
	// Signature is of the definition that decided; "" if an earlier version of this package wrote the fan-out.
	Signature string     `json:"signature,omitempty"`
	Iteration int        `json:"iteration"`
	Next      storedNext `json:"next"`

	// ID tells the fan-outs of a run apart, and OwnItems says that fanItems belongs to this one.
	ID       int64 `json:"id,omitempty"`
	OwnItems bool  `json:"items,omitempty"`

	// Asked is as in runPayload.
	Asked []string `json:"asked,omitempty"`

	// State is the state that every branch gets; nil if it is the state of the run.
	State json.RawMessage `json:"state,omitempty"`
}

// A storedBranch is a finished branch. It does not run again.
type storedBranch struct {
	Intent string `json:"intent"`

	// Fan is the ID of the storedFan. A branch that an earlier fan-out of the iteration has left is not of this one.
	Fan    int64  `json:"fan,omitempty"`
	Change change `json:"change"`

	// Effects are effects that the branch has asked for, and that were open or answered for: see book.askedBy.
	Effects []string `json:"effects,omitempty"`
}

// inlineState is how large a state may be to share the payload with the input.
const inlineState = 1 << 20

func storeNext(n Next) storedNext {
	stored := storedNext{Intents: n.Intents, End: n.End, Reason: n.Reason}
	if n.each == nil {
		return stored
	}
	stored.Each, stored.items = make(map[string]int), make(itemLists)
	for name, all := range n.each {
		stored.Each[name], stored.items[name] = all.count, all.raw
	}
	return stored
}

func (n storedNext) next() Next {
	next := Next{Intents: n.Intents, End: n.End, Reason: n.Reason}
	for name, count := range n.Each {
		if next.each == nil {
			next.each = make(map[string]items)
		}
		next.each[name] = items{count, n.items[name]}
	}
	return next
}

// same reports whether two decisions run the same branches.
func (n storedNext) same(m storedNext) bool {
	return slices.Equal(n.Intents, m.Intents) && n.items.same(m.items)
}

func (all itemLists) same(others itemLists) bool {
	return maps.EqualFunc(all, others, func(a, b []json.RawMessage) bool {
		return slices.EqualFunc(a, b, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
	})
}

// encode writes the items without the escapes that JSON does not demand.
func (all itemLists) encode() (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(map[string][]json.RawMessage(all))
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// mostItems bounds the items of one decision. Each is a branch with a part of its own in the saved run.
const mostItems = 10_000

// checkItems refuses a decision whose items no saved run would keep.
func (n Next) checkItems(limit int) error {
	if n.fault != nil || n.each == nil {
		return n.fault
	}
	count := 0
	for name, all := range n.each {
		if !slices.Contains(n.Intents, name) {
			return logtext.Private(fmt.Errorf("ForEach %q: the decision does not name this intent", name))
		}
		count += all.count
	}
	if count > mostItems {
		return fmt.Errorf("ForEach: %d items, and %d is the most: run them over several iterations", count, mostItems)
	}
	raw, err := storeNext(n).items.encode()
	if err != nil {
		return err
	}
	return fits("items", raw, limit)
}

// fill gives a decision its items. It reports whether they are the items that the decision counts.
func (n *storedNext) fill(all itemLists) bool {
	if len(n.Each) != len(all) {
		return false
	}
	for name, count := range n.Each {
		if found, ok := all[name]; !ok || len(found) != count || !slices.Contains(n.Intents, name) {
			return false
		}
	}
	if len(all) > 0 {
		n.items = all
	}
	return true
}

// firstDecision returns what the first iteration runs, as far as it is saved; nil if it is not. The items of a step are
// not.
func (s *runPayload) firstDecision() *storedNext {
	if len(s.Steps) == 0 {
		return s.Next
	}
	if first := s.Steps[0].storedNext; first.Each == nil {
		return &first
	}
	return nil
}

// encode writes the same value as json.Marshal, at less cost. json.Marshal spends more on a run than on its state.
func (s runPayload) encode() json.RawMessage {
	w := newWriter(len(s.State) + len(s.Input.Text) + len(s.Input.Data) + 64*len(s.Steps) + 256)
	w.number("v", int64(s.V))
	w.number("born", s.Born)
	w.text("signature", s.Signature)
	w.text("version", s.Version)
	s.Input.write(w)
	w.number("anew", s.Anew)
	w.number("failures", int64(s.Failures))
	w.text("trace", s.Trace)
	w.number("iteration", int64(s.Iteration))
	if s.Next != nil {
		w.open("next")
		s.Next.write(w)
		w.close()
	}
	w.list("asked", s.Asked)
	w.text("feedback", s.Feedback)
	s.Usage.write(w)
	writeSteps(w, s.Steps)
	w.list("doubt", s.Doubt)
	if s.Unasked {
		w.raw("unasked", json.RawMessage("true"))
	}
	w.number("started", s.Started)
	w.number("logged", s.Logged)
	w.raw("state", s.State)
	return w.end()
}

func (t turnPayload) encode() json.RawMessage {
	w := newWriter(len(t.Input.Text) + len(t.Input.Data) + 64*len(t.Steps) + 64)
	w.number("v", int64(t.V))
	t.Input.write(w)
	t.Usage.write(w)
	writeSteps(w, t.Steps)
	if t.Put {
		w.raw("put", json.RawMessage("true"))
	}
	w.number("settled", t.Settled)
	w.text("failed", t.Failed)
	w.text("labels", t.Labels)
	return w.end()
}

func (in storedInput) write(w *writer) {
	w.open("input")
	w.text("text", in.Text)
	w.raw("data", in.Data)
	w.text("from", string(in.Origin))
	w.text("by", in.By)
	w.text("kind", in.Kind)
	w.close()
}

func (n storedNext) write(w *writer) {
	w.list("to", n.Intents)
	if len(n.Each) > 0 {
		w.open("each")
		for _, name := range slices.Sorted(maps.Keys(n.Each)) {
			w.count(name, n.Each[name])
		}
		w.close()
	}
	if n.End {
		w.raw("end", json.RawMessage("true"))
	}
	w.text("why", n.Reason)
}

// stored returns what is stored of u.
func stored(u Usage) storedUsage { return storedUsage{u.Input, u.Output, u.Cost} }

func (u storedUsage) usage() Usage { return Usage{Input: u.Input, Output: u.Output, Cost: u.Cost} }

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

// documents returns the payload of s. If the state is larger than inline, the state is a part beside the payload. The
// items of the decision always are.
func (s *runPayload) documents(inline int) (payload json.RawMessage, parts map[string]json.RawMessage, err error) {
	s.V = max(s.V, payloadVersion)
	if s.Next != nil && s.Next.Each != nil {
		s.V = itemsVersion
		raw, err := s.Next.items.encode()
		if err != nil {
			return nil, nil, err
		}
		parts = map[string]json.RawMessage{itemsPart: raw}
	}
	if len(s.State) > inline {
		if parts == nil {
			parts = make(map[string]json.RawMessage)
		}
		parts[statePart] = s.State
		rest := *s
		rest.State = nil
		return rest.encode(), parts, nil
	}
	return s.encode(), parts, nil
}

// readPayload returns the decoded Payload of r. If a later version of this package wrote r, readPayload returns a
// *DriftError. If no version wrote r, readPayload returns a *snapshot.DamagedError.
func readPayload(r snapshot.Run) (runPayload, error) {
	var version struct{ V int }
	if err := json.Unmarshal(r.Payload, &version); err != nil {
		return runPayload{}, damagedRun(r, "payload: %w", unread(err))
	}
	if version.V > itemsVersion {
		return runPayload{}, &DriftError{
			Err: fmt.Errorf("payload of version %d, and this process knows %d", version.V, itemsVersion),
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
	case saved.Next != nil && !saved.Next.intact():
		return runPayload{}, damagedRun(r, "payload: the decision names no intent")
	}
	return saved, nil
}

// intact reports whether n is a decision for intents. The end of a turn is never stored as a decision.
func (n storedNext) intact() bool {
	return !n.End && len(n.Intents) > 0 && !slices.Contains(n.Intents, "")
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
	return Input{RequestID: requestID, Text: in.Text, Data: in.Data, Origin: in.Origin, By: in.By, Kind: in.Kind}
}

// inputOf returns the input of a run. If the run cannot be read, only the request id is known.
func inputOf(r snapshot.Run) Input {
	payload, _ := readPayload(r)
	return payload.Input.input(r.RequestID)
}

func steps(stored []storedStep) []Step {
	all := make([]Step, len(stored))
	for i, s := range stored {
		all[i] = Step{Next: s.next(), Took: time.Duration(s.Took) * time.Millisecond, Usage: s.Usage.usage()}
	}
	return all
}

// runID names the run of an input. With a request id, the name is the same each time the input comes in this life of
// the session. So the input finds its own run, and another input never does.
//
// What a user sends can so not be taken for an answer, nor an answer for it. The call of a tool has no such part: its
// request id is a digest, and runs that an earlier version has begun go on. A Put is never the repeat of an Execute.
func runID(k checkpoint.Key, born int64, in Input, put bool) string {
	parts := []string{
		k.Orchestrator, k.Session, strconv.FormatInt(born, 10), in.RequestID, in.Text, compact(in.Data),
	}
	if in.Origin == FromAnswer || in.Origin == FromSystem {
		parts = append(parts, string(in.Origin))
	}
	if put {
		parts = append(parts, "put")
	}
	return digest(parts...)[:idLen]
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

// failureParts returns the part of a run that says the kind of its last failure; nil if the run keeps no text of it.
func failureParts(text string, err error) map[string]json.RawMessage {
	raw, failed := json.Marshal(errorType(err))
	if text == "" || failed != nil {
		return nil
	}
	return map[string]json.RawMessage{failurePart: raw}
}

// failureOf returns the kind of the last failure of a run that was adopted; "none" if nothing failed since its last
// progress: its process has ended each time, or its callers have gone.
func failureOf(r snapshot.Run) string {
	var kind string
	if r.Error == "" || json.Unmarshal(r.Parts[failurePart], &kind) != nil {
		return "none"
	}
	return kind
}
