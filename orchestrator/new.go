package orchestrator

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/internal/jsontype"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An Orchestrator runs the turns of one bot. Its methods may be called concurrently.
type Orchestrator[S any] struct {
	*engine
	def     Definition[S]
	choices []Choice
}

// New returns an Orchestrator of d over store. An error of New names every fault of d and o at once.
func New[S any](d Definition[S], store checkpoint.Store, o *Options) (*Orchestrator[S], error) {
	if o == nil {
		o = new(Options)
	}
	faults := slices.Concat(d.faults(), o.faults(), jsontype.Check(reflect.TypeFor[S]()))
	if store == nil {
		faults = append(faults, "no checkpoint store")
	}
	if len(faults) > 0 {
		return nil, &Error{Op: "new", Err: errors.New(strings.Join(faults, "; "))}
	}
	d.Intents = maps.Clone(d.Intents)
	orch := &Orchestrator[S]{engine: newEngine(d.Name, store, *o), def: d}
	orch.signature, orch.version = d.signature(), d.Version
	for _, name := range slices.Sorted(maps.Keys(d.Intents)) {
		orch.choices = append(orch.choices, Choice{name, d.Intents[name].Description})
	}
	return orch, nil
}

func newEngine(name string, store checkpoint.Store, o Options) *engine {
	o.Limits, o.Compaction = o.Limits.orDefaults(), o.Compaction.orDefaults()
	o.Logger = cmp.Or(o.Logger, slog.Default()).With("orchestrator", name)
	if o.LogError == nil {
		o.LogError = logtext.Of
	}
	host, _ := os.Hostname()
	e := &engine{Options: o, name: name, store: store}
	if runs, ok := o.Snapshots.(snapshot.Joiner); ok {
		e.joined = runs.Join(store)
	}
	e.process = fmt.Sprintf("%.64s/%d/%s", strings.ToValidUTF8(host, "?"), os.Getpid(), rand.Text()[:8])
	var err error
	if e.meters, err = newMeters(name); err != nil {
		e.Logger.Warn("metrics incomplete", e.why(err))
	}
	e.sessions = owner.New(owner.Options{
		Orchestrator: name, Name: e.process, Store: store, Locker: o.Locker, Logger: o.Logger, Why: e.why,
		Waited:   e.meters.waited,
		LeaseTTL: o.Limits.LeaseTTL, LockWait: o.Limits.LockWait, SettleTimeout: o.Limits.SettleTimeout,
	})
	return e
}

// Name returns the name of the definition.
func (o *Orchestrator[S]) Name() string { return o.name }

func (o *Options) faults() []string {
	faults := append(o.Limits.faults(), o.Compaction.faults()...)
	if o.KeepSnapshots < 0 {
		faults = append(faults, "KeepSnapshots is negative")
	}
	if o.KeepSnapshots > checkpoint.KeepAll {
		faults = append(faults, "KeepSnapshots is more than checkpoint.KeepAll")
	}
	if o.OnInterrupted < ResumeFirst || o.OnInterrupted > AbandonFirst {
		faults = append(faults, "OnInterrupted "+strconv.Itoa(int(o.OnInterrupted))+" is none of its values")
	}
	return faults
}

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
	for _, next := range in.Next.Intents {
		if _, known := d.Intents[next]; !known {
			add("Next %q is no intent", next)
		}
	}
	if len(in.Next.Intents) > 0 && !d.Iterate {
		add("Next without Iterate: one dispatch is a turn")
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
		slices.Collect(maps.Values(d.Intents)), func(in Intent[S]) bool { return in.Next.zero() },
	) {
		faults = append(faults, "Iterate, and neither Route, Evaluate nor every intent's Next says what follows")
	}
	return faults
}

// signature is the same in every process and version of this module. It decides whether stored rows are of this
// definition.
func (d *Definition[S]) signature() string {
	h := sha256.New()
	add := func(s string) { writePart(h, s) }
	add(d.Name)
	add(strconv.Itoa(len(d.Intents)))
	for _, name := range slices.Sorted(maps.Keys(d.Intents)) {
		add(name)
	}
	add(d.First)
	add(strconv.FormatBool(d.Iterate))
	return hex.EncodeToString(h.Sum(nil))
}

// writePart adds s to a hash in such a way that no two lists of parts give the same bytes.
func writePart(h hash.Hash, s string) {
	fmt.Fprintf(h, "%d:", len(s))
	h.Write([]byte(s))
}
