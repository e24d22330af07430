package turnlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The canonical phases. The engine records Started and Settled. What calls a model or a tool records the others.
const (
	Started        = "started"
	LLMComplete    = "llm-complete"
	ToolDispatched = "tool-dispatched"
	ToolReceived   = "tool-received"
	Settled        = "settled"
)

// An Entry is one phase that a turn has passed.
type Entry struct {
	// Run is the id of the run. The number of a turn may be tried twice, the id of a run never.
	Run string

	// Turn is the number that the run gets if it settles next. It may grow within a run: a Lister gives back the
	// highest. An adapter may leave out Turn and Orchestrator.
	Turn int

	// Orchestrator and Session are the same for all entries of a run.
	Orchestrator string
	Session      string

	Phase string
	State json.RawMessage

	// At is in UTC and in whole milliseconds. It grows within a run.
	At time.Time
}

// TimeFormat is how times are written in JSON: in UTC, and always as long. So the order of the texts is that of time.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// entryJSON is an Entry in JSON.
type entryJSON struct {
	Run          string          `json:"turnId"`
	Session      string          `json:"sessionId"`
	Phase        string          `json:"phase"`
	State        json.RawMessage `json:"state"`
	At           string          `json:"timestamp"`
	Turn         int             `json:"turn"`
	Orchestrator string          `json:"orchestrator"`
}

// MarshalJSON returns an object with the members turnId, sessionId, phase, state, timestamp, turn and orchestrator.
func (e Entry) MarshalJSON() ([]byte, error) {
	return json.Marshal(entryJSON{
		e.Run, e.Session, e.Phase, e.State, e.At.UTC().Format(TimeFormat), e.Turn, e.Orchestrator,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *Entry) UnmarshalJSON(doc []byte) error {
	var stored entryJSON
	if err := json.Unmarshal(doc, &stored); err != nil {
		return err
	}
	at, err := time.Parse(TimeFormat, stored.At)
	if err != nil {
		return fmt.Errorf("timestamp: %w", err)
	}
	*e = Entry{
		Run: stored.Run, Turn: stored.Turn, Orchestrator: stored.Orchestrator, Session: stored.Session,
		Phase: stored.Phase, State: stored.State, At: at,
	}
	return nil
}

// A StartedState is the state of Started.
type StartedState struct {
	Actor string // the orchestrator
	Slot  string // the key of the session: see lock.Key

	// Kind is the kind of the input; "" if it has none.
	Kind string

	// Messages are the input, as package message writes messages. Data is the Data of the input, if it has any.
	Messages []json.RawMessage
	Data     json.RawMessage

	// Cut says why Messages and Data are left out; "" if they are not.
	Cut string

	// ExpiresAt is when Limits.TurnTimeout ends the first attempt; zero if nothing does.
	ExpiresAt time.Time
}

type startedJSON struct {
	Actor     string            `json:"actorId"`
	Slot      string            `json:"slotKey"`
	Kind      string            `json:"kind,omitempty"`
	Messages  []json.RawMessage `json:"messages"`
	Data      json.RawMessage   `json:"data,omitempty"`
	Cut       string            `json:"cut,omitempty"`
	ExpiresAt *string           `json:"expiresAt"`
}

// MarshalJSON returns an object with the members actorId, slotKey, messages and expiresAt, and kind, data and cut if
// there are any.
func (s StartedState) MarshalJSON() ([]byte, error) {
	doc := startedJSON{Actor: s.Actor, Slot: s.Slot, Kind: s.Kind, Messages: s.Messages, Data: s.Data, Cut: s.Cut}
	if doc.Messages == nil {
		doc.Messages = []json.RawMessage{}
	}
	if !s.ExpiresAt.IsZero() {
		at := s.ExpiresAt.UTC().Format(TimeFormat)
		doc.ExpiresAt = &at
	}
	return json.Marshal(doc)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *StartedState) UnmarshalJSON(doc []byte) error {
	var stored startedJSON
	if err := json.Unmarshal(doc, &stored); err != nil {
		return err
	}
	*s = StartedState{
		Actor: stored.Actor, Slot: stored.Slot, Kind: stored.Kind, Messages: stored.Messages, Data: stored.Data,
		Cut: stored.Cut,
	}
	if stored.ExpiresAt != nil {
		at, err := time.Parse(TimeFormat, *stored.ExpiresAt)
		if err != nil {
			return fmt.Errorf("expiresAt: %w", err)
		}
		s.ExpiresAt = at
	}
	return nil
}

// The words of SettledState.TurnState.
const (
	Complete  = "complete"
	Cancelled = "cancelled"
	TimedOut  = "timeout"
	Failed    = "error"
)

// A SettledState is the state of Settled.
type SettledState struct {
	TurnState string `json:"turnState"`

	// Respond is the settled state, or what Definition.Respond makes of it. It is null if the turn did not settle.
	Respond json.RawMessage `json:"respond"`

	// Reason is the text of the failure.
	Reason string `json:"reason"`
}

// The conditions of a log. The package comment says what each means.
var (
	ErrPhase   = store.Verdict("turnlog: phase not registered")
	ErrState   = store.Verdict("turnlog: state cannot be recorded")
	ErrChanged = store.Verdict("turnlog: same run, phase and time with another state")
	ErrAdapter = errors.New("turnlog: adapter broke its contract")
	ErrInvalid = store.ErrInvalid
	ErrSchema  = store.ErrSchema
	ErrDamaged = store.ErrDamaged
	ErrRefused = store.ErrRefused
)

// A DamagedError is the ErrDamaged of one run. ID is the id of the run, and Key is empty.
type DamagedError = store.DamagedError

// A Log is all that an adapter must offer. Its methods may be called concurrently.
type Log interface {
	// Record returns when e is durable. The same entry again is no error, and stores nothing. Two entries of one run
	// and phase at different times are two entries. If an entry of the same run, phase and time has another state, the
	// error is ErrChanged.
	Record(ctx context.Context, e Entry) error

	// Restore returns the entries of a run, oldest first. It returns none for a run that is unknown or pruned. If some
	// entries are damaged, the others come with a *DamagedError.
	Restore(ctx context.Context, run string) ([]Entry, error)
}

// A Lister is a Log that knows its turns. The logs of this module are Listers. An adapter need not be one.
type Lister interface {
	Log

	// Turns yields the turns that q selects, in the order of their first entries. Its cost grows with what it yields.
	//
	// If a turn is damaged, Turns yields a *DamagedError with as much of the turn as can be read. Then Turns goes on.
	// Any other error ends it.
	Turns(ctx context.Context, q Query) iter.Seq2[Summary, error]

	// Prune forgets turns whose last Settled is before a time, and none that is open. It returns how many turns it has
	// forgotten. If a late owner records an entry after that, the entry begins a turn that is open.
	Prune(ctx context.Context, before time.Time) (forgotten int, err error)
}

// A Query selects turns. Zero fields select all.
type Query struct {
	Orchestrator, Session string

	// Open selects turns that have no Settled after their last Started: a run that has failed begins anew if its input
	// comes again. Another phase after Settled does not open a turn. Open costs by these turns, and not by all.
	Open bool

	// OlderThan selects turns whose last entry is at least so old, by the clock of the log.
	OlderThan time.Duration

	// After and AfterRun are the time of the first entry, and the run, of the last turn of the page before. If AfterRun
	// is empty, the turns after that time are selected.
	After    time.Time
	AfterRun string
	Limit    int // 0: no limit
}

// A Summary is a turn by its first and its last entry.
type Summary struct{ First, Last Entry }
