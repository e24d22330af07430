package orchestrator_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// An odd is a state with fields of many kinds. Each branch of a fan-out writes one of F0 to F8, which no other writes.
type odd struct {
	Log  []string       `json:"log,omitempty"`
	Wide string         `json:"wide,omitempty"`
	M    map[string]int `json:"m"`
	P    *int           `json:"p,omitempty"`
	nested
	Nested nested
	F0     string `json:",omitempty"`
	F1     map[string]int
	F2     *string  `json:"f2,omitempty"`
	F3     []string `json:",omitempty"`
	F4     string
	F5     map[string]int
	F6     *string `json:"-f6"`
	F7     []string
	F8     int `json:",omitzero"`
}

// nested is embedded in odd.
type nested struct {
	In   string              `json:"in,omitempty"`
	Deep map[string][]string `json:"deep"`
}

type oddTurn = orchestrator.Turn[odd]

// A plan is a bot made of random choices. A choice depends on the seed and on what it is for, on nothing else. So two
// processes choose alike if their functions see the same.
type plan struct {
	seed uint64

	// Parts of the definition. names are those of the intents.
	names []string
	first string

	begins, route, evaluate, merge, iterate, deliver bool

	// Options. keep is Options.KeepSnapshots, and required is Options.RequireDelivered.
	keep int

	withSnapshots, withLedger, withLog, withStream, compacts, required bool
}

func newPlan(seed uint64) *plan {
	p := &plan{seed: seed}
	p.names = []string{"a", "b", "c"}[:1+p.pick(3, "names")]
	p.route, p.iterate = p.chance(80, "route"), p.chance(75, "iterate")
	p.begins, p.evaluate, p.merge = p.chance(50, "begin"), p.chance(40, "evaluate"), p.chance(50, "merge")
	if !p.route || p.chance(30, "first") {
		p.first = p.names[p.pick(len(p.names), "which first")]
	}
	p.deliver = p.chance(40, "deliver")
	p.required = p.deliver && p.chance(50, "required")
	p.withSnapshots, p.withLedger = p.chance(92, "snapshots"), p.chance(65, "ledger")
	p.withLog, p.withStream = p.chance(30, "log"), p.chance(20, "stream")
	p.compacts = p.chance(20, "compact")
	p.keep = []int{0, 1, 2, checkpoint.KeepAll}[p.pick(4, "keep")]
	return p
}

// pick chooses a number below n.
func (p *plan) pick(n int, what ...any) int {
	h := sha256.Sum256(fmt.Append(nil, p.seed, what))
	return int(binary.BigEndian.Uint64(h[:8]) % uint64(n))
}

// chance chooses true in so many of a hundred cases.
func (p *plan) chance(percent int, what ...any) bool { return p.pick(100, what...) < percent }

// A place is a function of the bot, in an iteration of the turn of an input.
type place struct {
	input     string
	iteration int
	where     string // one of functionsOfBots
	intent    string // of "then" and "intent"
	item      int    // counted from 1; 0 without items
}

var functionsOfBots = []string{"begin", "route", "evaluate", "then", "intent"}

func (at place) String() string {
	function := strings.TrimSpace(at.where + " " + at.intent)
	return fmt.Sprintf("%s: %s, iteration %d, item %d", at.input, function, at.iteration, at.item)
}

// failsForGood reports whether a function fails each time.
func (p *plan) failsForGood(where, intent string, iteration int) bool {
	return p.chance(1, "fails for good", where, intent, iteration)
}

// mayFail reports whether any function may fail each time.
func (p *plan) mayFail() bool {
	for iteration := range mostIterations + 1 {
		for _, where := range functionsOfBots {
			for _, intent := range append([]string{""}, p.names...) {
				if p.failsForGood(where, intent, iteration) {
					return true
				}
			}
		}
	}
	return false
}

// retries reports whether an intent is tried again if it fails.
func (p *plan) retries(intent string) bool { return p.chance(30, "retries", intent) }

// classOf chooses the class of an effect. Without a snapshot store no run can wait for the answer to an Ask.
func (p *plan) classOf(effect string) ledger.Class {
	class := []ledger.Class{ledger.Idempotent, ledger.Verifiable, ledger.Pure, ledger.Ask}[p.pick(4, "class", effect)]
	if class == ledger.Ask && !p.withSnapshots {
		return ledger.Idempotent
	}
	return class
}

// digestOf returns a digest of all that a function of the bot sees.
func digestOf(t *oddTurn) string {
	state, err := json.Marshal(t.State)
	if err != nil {
		panic(err)
	}
	var roles []string
	for _, m := range t.History {
		roles = append(roles, fmt.Sprint(m.Role))
	}
	h := sha256.Sum256(fmt.Append(nil, string(state), t.Index, t.Iteration, t.Feedback, t.Ran, t.Input.Text,
		string(t.Item), t.ItemNumber, roles))
	return fmt.Sprintf("%x", h[:6])
}

// next decides by what a function saw.
func (p *plan) next(saw, where string, iteration int) Next {
	pick := func(n int, what string) int { return p.pick(n, "next", saw, where, what) }
	one, other := p.names[pick(len(p.names), "one")], p.names[pick(len(p.names), "other")]
	each := func(intent, what string) Next {
		var items []string
		for i := range pick(4, what) {
			items = append(items, fmt.Sprint(what, i, saw))
		}
		return orchestrator.ForEach(intent, items...)
	}
	n := orchestrator.To(one)
	switch kind := pick(8, "kind"); {
	case iteration >= 3, iteration > 0 && kind == 0:
		n = orchestrator.End
	case kind == 1, kind == 2:
		n = n.And(orchestrator.To(other))
	case kind == 3, kind == 4:
		n = each(one, "i")
	case kind == 5:
		n = each(one, "i").And(orchestrator.To(other))
	case kind == 6:
		n = each(one, "i").And(each(other, "j"))
	}
	n.Reason = "because " + saw
	return n
}

// follows chooses what follows an intent: its Then, its Next or neither.
func (p *plan) follows(intent string) (then bool, next Next) {
	if !p.iterate {
		return false, Next{}
	}
	switch kind := p.pick(4, "follows", intent); {
	case kind == 0:
		return true, Next{}
	case kind == 2, kind == 1 && !p.route:
		next = p.next("static "+intent, "", 1)
		next.Reason = ""
	case !p.route: // so that something follows
		next = orchestrator.End
	}
	return false, next
}

// change is what a function that runs alone does to the state.
func (p *plan) change(s *odd, saw, where string) {
	s.Log = append(s.Log, where+saw)
	if s.M == nil {
		s.M = make(map[string]int)
	}
	s.M[where]++
	if s.P == nil || p.chance(20, "new P", saw) {
		s.P = new(int)
	}
	*s.P++
	switch p.pick(8, "change", saw) {
	case 0:
		s.M, s.P = nil, nil
	case 1:
		s.In += where
	case 2:
		s.Deep = map[string][]string{where: {saw, "<&>"}}
	case 3:
		s.Nested.In = saw
	case 4:
		if p.chance(2, "wide") {
			s.Wide = strings.Repeat("w", 1<<20+len(saw))
		}
	case 5:
		s.Wide = ""
	case 6:
		s.F0, s.F1, s.F2 = "", nil, nil
	}
}

// changeField is what a branch does to its field.
func (p *plan) changeField(s *odd, number int, saw string) {
	field := reflect.ValueOf(s).Elem().FieldByName(fmt.Sprint("F", number))
	if p.chance(20, "zero", saw) {
		field.SetZero()
		return
	}
	if p.chance(10, "nothing", saw) {
		return
	}
	switch f := field.Addr().Interface().(type) {
	case *string:
		*f += saw
	case *map[string]int:
		if *f == nil {
			*f = make(map[string]int)
		}
		(*f)[saw]++
	case **string:
		if *f == nil {
			*f = new(string)
		}
		**f += saw
	case *[]string:
		*f = append(*f, saw)
	case *int:
		*f += len(saw) + 1
	}
}
