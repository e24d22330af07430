package agent

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/transcript"
)

// A Kind says what a call waits for.
type Kind string

// The kinds.
const (
	Client   Kind = "client"   // the caller's side runs it, and answers with the result
	Approval Kind = "approval" // it runs here, once somebody agrees
	Input    Kind = "input"    // its tool asks something by Ask, and runs here again with the answer
)

// A Status is that of a session. Active is one with a run in flight: no settled state has it.
type Status string

// The statuses.
const (
	Active      Status = "active"
	Completed   Status = "completed"
	Failed      Status = "failed"      // the model failed, or a limit was reached: Continue goes on
	Interrupted Status = "interrupted" // stopped: Continue goes on
	Paused      Status = "paused"      // waits for answers
)

// A Reason says why.
type Reason string

// The reasons.
const (
	ForClient   Reason = "suspended_client_tool"       // Paused: answers are missing, approvals too
	ForChildren Reason = "suspended_awaiting_children" // Paused: of a descendant
	ForRest     Reason = "suspended_step_partial"      // Paused: other calls of the same reply have their results
	ModelFailed Reason = "model_failed"                // Failed
	TooLong     Reason = "too_long"                    // Failed: what was said is longer than the model takes
	Steps       Reason = "max_steps"                   // Failed
	Budget      Reason = "max_cost"                    // Failed
)

// A State is what the engine stores of a session. It is for those who query the table; code goes through the methods.
type State[C any] struct {
	Custom    C
	Status    Status            `json:",omitempty"`
	Reason    Reason            `json:",omitempty"`
	Said      []transcript.Span `json:",omitempty"`
	Tail      []message.Message `json:",omitempty"` // what was said last, and is not in the transcript yet
	Summary   string            `json:",omitempty"` // stands for what was said in Behind, for the model
	Behind    []transcript.Span `json:",omitempty"`
	Unsummed  bool              `json:",omitempty"` // a summary has failed in this turn
	TooLong   bool              `json:",omitempty"` // the model has said that it was shown too much
	Try       string            `json:",omitempty"` // made anew when a run begins, and when it begins again
	Phase     string            `json:",omitempty"` // what the turn does next
	Step      int               `json:",omitempty"` // of this turn
	Acted     bool              `json:",omitempty"` // a tool has run in this turn, or an answer was taken
	Output    string            `json:",omitempty"`
	Result    json.RawMessage   `json:",omitempty"`
	Interrupt *Interrupt        `json:",omitempty"`

	// Open are the calls of the newest reply that have no result yet, in their order.
	Open []Open `json:",omitempty"`

	// Answers are those that were given and are not used yet. Answered says who has answered which call.
	Answers  map[string]Answer `json:",omitzero"`
	Answered Answered          `json:",omitzero"`

	Heard    []string           `json:",omitempty"` // the newest requests that were said, if messages steer
	Children map[string]string  `json:",omitzero"`  // session → tool; of those that are done, some
	Self     string             // the session that the state is of: a fork notices that it is another one
	Forked   int                `json:",omitempty"` // how many messages a fork has of its source
	Born     string             // made anew with each session: one that was deleted and begun again is another one
	Parent   string             `json:",omitempty"`
	Root     string             `json:",omitempty"`
	Above    []string           `json:",omitempty"` // the agents that have called, the root's first
	Resumes  int                `json:",omitempty"`
	Litter   time.Time          `json:",omitzero"` // since when the transcript may have what no state names
	Spent    orchestrator.Usage // over all turns, children included
	Most     float64            `json:",omitempty"` // what Spent may cost: a parent has left so much; below 0 is nothing
	Over     bool               `json:",omitempty"` // it has expired, and is being deleted
	Labels
	Created time.Time
}

// Labels are the caller's.
type Labels struct {
	User      string            `json:",omitempty"`
	Tags      []string          `json:",omitempty"`
	Metadata  map[string]string `json:",omitzero"`
	Workspace json.RawMessage   `json:",omitempty"`
	Mode      string            `json:",omitempty"` // set once
	Expires   time.Time         `json:",omitzero"`  // zero: never
}

// An Open call has no result yet.
type Open struct {
	Call  Call
	Child string  `json:",omitempty"` // the session that runs it
	Asked bool    `json:",omitempty"` // the child has been asked
	Left  float64 `json:",omitempty"` // what the child has not used up of its part of a budget

	// Counted is what the child has used, as far as it is counted to this session.
	Counted orchestrator.Usage `json:",omitzero"`

	Waits []Pending `json:",omitempty"` // whom it waits for; empty: it has not run yet

	Asking *Asking `json:",omitempty"` // its tool has asked something
}

// A Pending call waits for an answer. Each question of a tool has an id of its own in place of that of the call.
type Pending struct {
	Call  Call
	Kind  Kind
	Agent string
	Since time.Time

	Until     time.Time `json:",omitzero"`  // zero: it waits for ever
	Otherwise string    `json:",omitempty"` // of Client: the result if nobody has answered until then; "" has failed

	// Of Input: the id of the call, what its tool asks, and the JSON Schema of the answer.
	Of   string          `json:",omitempty"`
	Asks string          `json:",omitempty"`
	Form json.RawMessage `json:",omitempty"`
}

// An Interrupt says who stopped what.
type Interrupt struct{ Run, Reason string }

// An Answer is what a pending call waits for.
type Answer struct {
	Kind     Kind
	Result   string `json:",omitempty"` // of Client and Input
	Failed   bool   `json:",omitempty"` // of Client and Input: Result says why
	Approved bool   `json:",omitempty"` // of Approval
	Note     string `json:",omitempty"` // of Approval: for the model, if it was refused
	By       string `json:",omitempty"`
}

// Approve returns the answer of a person who agrees.
func Approve(by string) Answer { return Answer{Kind: Approval, Approved: true, By: by} }

// Refuse returns the answer of a person who does not agree. note is for the model.
func Refuse(by, note string) Answer { return Answer{Kind: Approval, Note: note, By: by} }

// Done returns the result of a call that the caller's side has run.
func Done(result string) Answer { return Answer{Kind: Client, Result: result} }

// CouldNot says why the caller's side has no result.
func CouldNot(reason string) Answer { return Answer{Kind: Client, Result: reason, Failed: true} }

// rootOf returns the agent and the session that have asked first; "" if the session is no child.
func rootOf[C any](s *State[C]) (agent, session string) {
	if len(s.Above) == 0 {
		return "", ""
	}
	return s.Above[0], s.Root
}

// missing returns the calls that wait for an answer that was not given, of descendants too.
func (s *State[C]) missing() (all []Pending) {
	for _, o := range s.Open {
		for _, p := range o.Waits {
			if _, given := s.Answers[p.Call.ID]; !given {
				all = append(all, p)
			}
		}
	}
	return all
}

// pending returns the call that waits under an id, of a descendant too.
func (s *State[C]) pending(id string) *Pending {
	for _, o := range s.Open {
		if i := slices.IndexFunc(o.Waits, func(p Pending) bool { return p.Call.ID == id }); i >= 0 {
			return &o.Waits[i]
		}
	}
	return nil
}

// why returns the Reason of a pause.
func (s *State[C]) why() Reason {
	if slices.ContainsFunc(s.Open, func(o Open) bool { return o.Child != "" }) {
		return ForChildren
	}
	return ForClient
}
