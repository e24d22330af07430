package orchestrator

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/internal/jsontype"
)

// An Orchestrator runs the turns of one bot. Its methods may be called concurrently.
type Orchestrator[S any] struct {
	codec[S]

	// first is what runs first in a turn, and only what runs in each iteration, if that is known before; else nil.
	first, only *storedNext
}

// A codec makes an S of what is stored, and says what this process would lose of it.
type codec[S any] struct {
	engine  *engine
	def     Definition[S]
	choices []Choice

	// unlabeled logs the first failure of Definition.Labels.
	unlabeled sync.Once
}

// A stay is a visit of a bot whose states are of type S.
type stay[S any] struct {
	*visit
	bot *Orchestrator[S]
}

// stateFaults names what a state of type t would lose.
func stateFaults(t reflect.Type) []string {
	if t.Kind() == reflect.Pointer {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		return []string{"the state is a pointer, which is nil in a first turn: use " + t.String()}
	}
	return jsontype.Check(t)
}

// Name returns the name of the definition.
func (o *Orchestrator[S]) Name() string { return o.engine.identity.name }

// defined returns ErrNoDefinition if o cannot run a turn.
func (o *Orchestrator[S]) defined(op, session string) error {
	if o.def.Intents == nil {
		return &Error{Op: op, Session: session, Err: ErrNoDefinition}
	}
	return nil
}

func (o *Options) faults() []string {
	faults := slices.Concat(o.Limits.faults(), o.Compaction.faults(), o.Effects.faults())
	if o.KeepSnapshots < 0 {
		faults = append(faults, "KeepSnapshots is negative")
	}
	if o.KeepSnapshots > checkpoint.KeepAll {
		faults = append(faults, "KeepSnapshots is more than checkpoint.KeepAll")
	}
	if o.Inbox != nil && o.Snapshots == nil {
		faults = append(faults, "Inbox without Snapshots")
	}
	if o.OnInterrupted < ResumeFirst || o.OnInterrupted > AbandonFirst {
		faults = append(faults, "OnInterrupted "+strconv.Itoa(int(o.OnInterrupted))+" is none of its values")
	}
	return faults
}

// faults names the values that cannot be meant.
func (l Limits) faults() []string {
	var faults []string
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Iterations", int64(l.Iterations)},
		{"FanOut", int64(l.FanOut)},
		{"Attempts", int64(l.Attempts)},
		{"TurnTimeout", int64(l.TurnTimeout)},
		{"LockWait", int64(l.LockWait)},
		{"LeaseTTL", int64(l.LeaseTTL)},
		{"SettleTimeout", int64(l.SettleTimeout)},
		{"Queue", int64(l.Queue)},
		{"Input", int64(l.Input)},
		{"State", int64(l.State)},
	} {
		if n.value < 0 {
			faults = append(faults, "Limits."+n.name+" is negative")
		}
	}
	if l.LeaseTTL > 0 && l.LeaseTTL < minLeaseTTL {
		faults = append(faults, "Limits.LeaseTTL is shorter than "+minLeaseTTL.String())
	}
	if l.LeaseTTL > maxLeaseTTL {
		faults = append(faults, "Limits.LeaseTTL is longer than "+maxLeaseTTL.String())
	}
	if l.SettleTimeout > 0 && l.SettleTimeout < minSettleTimeout {
		faults = append(faults, "Limits.SettleTimeout is shorter than "+minSettleTimeout.String())
	}
	if l.Input > mostInput {
		faults = append(faults, "Limits.Input is more than "+strconv.Itoa(mostInput))
	}
	if l.State > mostState {
		faults = append(faults, "Limits.State is more than "+strconv.Itoa(mostState))
	}
	return faults
}

// minLeaseTTL leaves room to renew: stores count leases in microseconds, networks do not.
const (
	minLeaseTTL      = 10 * time.Millisecond
	maxLeaseTTL      = 24 * time.Hour // so long a crash keeps a session
	minSettleTimeout = time.Millisecond
)

func (d *Definition[S]) faults() []string {
	var faults []string
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if err := ids.Check("name", d.Name); err != nil {
		add("%v", err)
	}
	if err := ids.CheckOptional("version", d.Version); err != nil {
		add("%v", err)
	}
	if len(d.Intents) == 0 {
		add("no intents")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Intents)) {
		faults = append(faults, d.intentFaults(name)...)
	}
	if _, known := d.Intents[d.First]; d.First != "" && !known {
		add("First %q is no intent", d.First)
	}
	return append(faults, d.routingFaults()...)
}

func (d *Definition[S]) intentFaults(name string) []string {
	var faults []string
	add := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("intent %q: ", name)+fmt.Sprintf(format, args...))
	}
	in := d.Intents[name]
	if err := ids.Check("name", name); err != nil {
		add("%v", err)
	}
	if in.Run == nil {
		add("no Run")
	}
	if in.Timeout < 0 {
		add("Timeout is negative")
	}
	if in.Retry.Attempts < 0 {
		add("Retry.Attempts is negative")
	}
	if in.Then != nil && !in.Next.zero() {
		add("Next and Then: one of them says what follows")
	}
	if in.Next.fault != nil {
		add("Next: %v", in.Next.fault)
	}
	for _, next := range in.Next.Intents {
		if _, known := d.Intents[next]; !known {
			add("Next %q is no intent", next)
		}
	}
	if len(in.Next.Intents) > 0 && !d.Iterate {
		add("Next without Iterate: one dispatch is a turn")
	}
	if in.Then != nil && !d.Iterate {
		add("Then without Iterate: one dispatch is a turn")
	}
	return faults
}

// routingFaults returns the faults by which a turn would have nothing that says what runs next.
func (d *Definition[S]) routingFaults() []string {
	if d.Evaluate != nil && !d.Iterate {
		return []string{"Evaluate without Iterate: one dispatch is a turn"}
	}
	if d.Route != nil || len(d.Intents) == 0 {
		return nil
	}
	var faults []string
	if d.First == "" && len(d.Intents) > 1 {
		faults = append(faults, "neither First nor Route says which of several intents runs")
	}
	if d.Iterate && d.Evaluate == nil && slices.ContainsFunc(
		slices.Collect(maps.Values(d.Intents)), func(in Intent[S]) bool { return in.Next.zero() && in.Then == nil },
	) {
		faults = append(faults,
			"Iterate, and neither Route, Evaluate nor every intent's Next or Then says what follows")
	}
	return faults
}

func (d *Definition[S]) identity() identity {
	id := identity{
		name: d.Name, signature: d.signature(), version: d.Version, intents: make(map[string]bool),
		migrates: d.Migrate != nil, members: jsontype.MembersOf(reflect.TypeFor[S]()),
	}
	for name := range d.Intents {
		id.intents[name] = true
	}
	return id
}

// signature is the same in every process and version of this module. It is stored with each row for people who look. It
// says nothing of S: what a row would lose is found when the row is decoded.
func (d *Definition[S]) signature() string {
	parts := []string{d.Name, strconv.Itoa(len(d.Intents))}
	parts = append(parts, slices.Sorted(maps.Keys(d.Intents))...)
	return digest(append(parts, d.First, strconv.FormatBool(d.Iterate))...)
}
