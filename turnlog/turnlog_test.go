package turnlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/turnlog"
)

func at(ms int64) time.Time { return time.UnixMilli(1_700_000_000_000 + ms).UTC() }

func phase(run, name string, ms int64, state string) turnlog.Entry {
	return turnlog.Entry{
		Run: run, Orchestrator: "support", Session: "s1", Phase: name, State: json.RawMessage(state), At: at(ms),
	}
}

func TestRegistry(t *testing.T) {
	r := turnlog.NewRegistry()
	for name, description := range r.Phases() {
		if description == "" {
			t.Errorf("phase %q has no description", name)
		}
		if err := r.Register(name, description); err != nil {
			t.Errorf("the same again: %v", err)
		}
		if err := r.Register(name, "something else"); err == nil {
			t.Errorf("%q was changed", name)
		}
	}
	if len(r.Phases()) != 5 {
		t.Errorf("canonical phases %v", r.Phases())
	}
	for _, name := range []string{"", "a\x00b", "a\xffb", strings.Repeat("p", turnlog.MaxPhase+1)} {
		if err := r.Register(name, "bad"); !errors.Is(err, turnlog.ErrPhase) {
			t.Errorf("phase %.20q: %v", name, err)
		}
	}
	log := turnlog.New(new(turnlog.Memory), r)
	ctx := context.Background()
	if err := log.Record(ctx, phase("r1", "peer-call", 1, "{}")); !errors.Is(err, turnlog.ErrPhase) {
		t.Errorf("not registered: %v", err)
	}
	if err := r.Register("peer-call", "a call of a peer"); err != nil {
		t.Error(err)
	}
	if err := log.Record(ctx, phase("r1", "peer-call", 1, "{}")); err != nil {
		t.Error(err)
	}
	if got, err := log.Restore(ctx, "r1"); err != nil || len(got) != 1 {
		t.Errorf("restored %v, %v", got, err)
	}
	other := new(turnlog.Memory)
	if err := log.Over(other).Record(ctx, phase("r2", "peer-call", 1, "{}")); err != nil {
		t.Error(err)
	}
	if got, err := other.Restore(ctx, "r2"); err != nil || len(got) != 1 {
		t.Errorf("over another adapter: restored %v, %v", got, err)
	}
	err := turnlog.New(other, nil).Record(ctx, phase("r2", "peer-call", 2, "{}"))
	if !errors.Is(err, turnlog.ErrPhase) {
		t.Errorf("the registry of another log: %v", err)
	}
}

// A careless adapter gives back what it likes.
type careless struct{ rows []turnlog.Entry }

func (c careless) Record(context.Context, turnlog.Entry) error { return nil }

func (c careless) Restore(context.Context, string) ([]turnlog.Entry, error) { return c.rows, nil }

func TestCarelessAdapter(t *testing.T) {
	rows := []turnlog.Entry{
		phase("r1", turnlog.Settled, 9, `{"a":1}`), phase("r1", turnlog.Started, 1, "{}"),
		phase("r1", turnlog.Settled, 9, `{ "a" : 1.0 }`),
	}
	log := turnlog.New(careless{rows}, nil)
	got, err := log.Restore(context.Background(), "r1")
	if err != nil || len(got) != 2 || got[0].Phase != turnlog.Started || got[1].Phase != turnlog.Settled {
		t.Errorf("restored %v, %v", got, err)
	}
	log = turnlog.New(careless{append(rows, phase("r2", turnlog.Started, 2, "{}"))}, nil)
	got, err = log.Restore(context.Background(), "r1")
	if !errors.Is(err, turnlog.ErrAdapter) || !strings.Contains(err.Error(), "careless") || len(got) != 2 {
		t.Errorf("restored %v, %v", got, err)
	}
	log = turnlog.New(careless{append(rows[:2:2], phase("r1", turnlog.Started, 1, "[]"))}, nil)
	if got, err = log.Restore(context.Background(), "r1"); !errors.Is(err, turnlog.ErrAdapter) || len(got) != 2 {
		t.Errorf("restored %v, %v", got, err)
	}
	for _, err := range log.Turns(context.Background(), turnlog.Query{}) {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("turns: %v", err)
		}
	}
	if n, err := log.Prune(context.Background(), at(0)); n != 0 || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("prune: %d, %v", n, err)
	}
}

// A strict adapter takes times in UTC and states only. It gives them back as the times of its place.
type strict struct{ turnlog.Memory }

func (s *strict) Record(ctx context.Context, e turnlog.Entry) error {
	if e.At.Location() != time.UTC || string(e.State) != "null" {
		return fmt.Errorf("%s with state %q", e.At, e.State)
	}
	return s.Memory.Record(ctx, e)
}

func (s *strict) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := s.Memory.Restore(ctx, run)
	for i := range all {
		all[i].At = all[i].At.In(time.FixedZone("east", 7200))
	}
	return all, err
}

func TestStrictAdapter(t *testing.T) {
	log := turnlog.New(new(strict), nil)
	e := phase("r1", turnlog.Started, 1, "")
	e.State, e.At = nil, e.At.In(time.FixedZone("west", -7200))
	if err := log.Record(t.Context(), e); err != nil {
		t.Error(err)
	}
	got, err := log.Restore(t.Context(), "r1")
	if err != nil || len(got) != 1 || got[0].At != at(1) {
		t.Errorf("restored %v, %v", got, err)
	}
}

// Only what a log writes is intact. The error names the run, and says why without the name of the package.
func TestIntact(t *testing.T) {
	good := phase("r1", turnlog.Started, 1, `{"a": 1}`)
	if err := good.Intact(); err != nil {
		t.Error(err)
	}
	for reason, spoil := range map[string]func(*turnlog.Entry){
		"run id":  func(e *turnlog.Entry) { e.Run = "" },
		"name":    func(e *turnlog.Entry) { e.Phase = "" },
		"time":    func(e *turnlog.Entry) { e.At = time.UnixMilli(-1) },
		"JSON":    func(e *turnlog.Entry) { e.State = json.RawMessage("{") },
		"turn -1": func(e *turnlog.Entry) { e.Turn = -1 },
		"session": func(e *turnlog.Entry) { e.Session = "" },
	} {
		e := good
		spoil(&e)
		damage, ok := errors.AsType[*turnlog.DamagedError](e.Intact())
		if !ok || damage.ID != e.Run || !strings.Contains(damage.Reason, reason) ||
			strings.HasPrefix(damage.Reason, "turnlog:") {
			t.Errorf("%s: %v", reason, e.Intact())
		}
	}
}

// The texts of times sort as the times do.
func TestTimesSortAsText(t *testing.T) {
	last := ""
	for _, ms := range []int64{-1, 0, 1, 10, 100, 999, 1000, 60_000} {
		e := phase("r1", turnlog.Started, ms, "{}")
		e.At = e.At.In(time.FixedZone("east", 7200))
		doc, err := json.Marshal(e)
		var stored struct{ Timestamp string }
		if err != nil || json.Unmarshal(doc, &stored) != nil || len(stored.Timestamp) != len(turnlog.TimeFormat) ||
			stored.Timestamp <= last {
			t.Errorf("%s after %s, %v", doc, last, err)
		}
		last = stored.Timestamp
		var back turnlog.Entry
		if err := json.Unmarshal(doc, &back); err != nil || !back.At.Equal(e.At) {
			t.Errorf("back %v, %v", back, err)
		}
	}
}

// What is no entry, or no state of started, is not read.
func TestOtherJSON(t *testing.T) {
	for _, doc := range []string{`[]`, `{"timestamp": "yesterday"}`} {
		if err := new(turnlog.Entry).UnmarshalJSON([]byte(doc)); err == nil {
			t.Errorf("%s is an entry", doc)
		}
	}
	for _, doc := range []string{`[]`, `{"expiresAt": "tomorrow"}`} {
		if err := new(turnlog.StartedState).UnmarshalJSON([]byte(doc)); err == nil {
			t.Errorf("%s is a state of started", doc)
		}
	}
	if doc, err := phase("r1", turnlog.Started, 1, "{").MarshalJSON(); err == nil {
		t.Errorf("a state that is no JSON is written: %s", doc)
	}
	if doc, err := (turnlog.StartedState{Data: json.RawMessage("{")}).MarshalJSON(); err == nil {
		t.Errorf("data that is no JSON is written: %s", doc)
	}
}

func TestStatesAreJSON(t *testing.T) {
	started := turnlog.StartedState{
		Actor: "support", Slot: "support/s1", Kind: "say", Messages: []json.RawMessage{json.RawMessage(`{"role":"user"}`)},
		Data: json.RawMessage(`[1]`), Cut: "too heavy", ExpiresAt: at(5),
	}
	settled := turnlog.SettledState{TurnState: turnlog.Complete, Respond: json.RawMessage(`{"n":1}`), Reason: "so"}
	var backStarted, empty turnlog.StartedState
	var backSettled turnlog.SettledState
	for _, c := range []struct{ state, back any }{{&started, &backStarted}, {&settled, &backSettled}} {
		doc, err := json.Marshal(c.state)
		if err != nil || json.Unmarshal(doc, c.back) != nil || !reflect.DeepEqual(c.state, c.back) {
			t.Errorf("%+v became %s, %+v, %v", c.state, doc, c.back, err)
		}
	}
	doc, err := json.Marshal(empty)
	if want := `{"actorId":"","slotKey":"","messages":[],"expiresAt":null}`; err != nil || string(doc) != want {
		t.Errorf("%s, %v", doc, err)
	}
	doc, err = json.Marshal(turnlog.SettledState{TurnState: turnlog.Failed})
	if want := `{"turnState":"error","respond":null,"reason":""}`; err != nil || string(doc) != want {
		t.Errorf("%s, %v", doc, err)
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		phases string
		want   turnlog.Recovery
	}{
		{"", turnlog.Nothing},
		{"started", turnlog.StartNew},
		{"started peer-call", turnlog.StartNew},
		{"started llm-complete", turnlog.GoOn},
		{"started llm-complete tool-dispatched tool-received llm-complete", turnlog.GoOn},
		{"started tool-dispatched", turnlog.GoOn},
		{"started llm-complete settled", turnlog.Outbound},
		{"started settled", turnlog.Outbound},
		{"started settled llm-complete", turnlog.Outbound},
		{"started llm-complete settled started", turnlog.StartNew},
		{"started settled started tool-received", turnlog.GoOn},
	} {
		var entries []turnlog.Entry
		for i, name := range strings.Fields(c.phases) {
			entries = append(entries, phase("r1", name, int64(i), "{}"))
		}
		if got := turnlog.Judge(entries); got != c.want {
			t.Errorf("%q: %s, want %s", c.phases, got, c.want)
		}
	}
}

// Recovery 4: report only. Nothing runs.
func ExampleLister() {
	ctx := context.Background()
	log := new(turnlog.Memory)
	for _, e := range []turnlog.Entry{
		phase("r1", turnlog.Started, 0, `{}`),
		phase("r1", turnlog.Settled, 40, `{"turnState":"complete"}`),
		phase("r2", turnlog.Started, 100, `{}`),
		phase("r2", turnlog.LLMComplete, 1300, `{}`),
	} {
		if err := log.Record(ctx, e); err != nil {
			fmt.Println(err)
		}
	}
	now := at(61_300)
	for turn, err := range log.Turns(ctx, turnlog.Query{Open: true}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("run %s: last phase %s, %v ago\n", turn.Last.Run, turn.Last.Phase, now.Sub(turn.Last.At))
	}
	// Output: run r2: last phase llm-complete, 1m0s ago
}
