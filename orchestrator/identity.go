package orchestrator

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/jsontype"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An identity says which stored rows a definition wrote, and which it can use.
type identity struct {
	name, signature, version string
	intents                  map[string]bool

	// members are the members of JSON that a state of the definition has a place for.
	members jsontype.Members

	// migrates says that the definition has a Migrate.
	migrates bool
}

// wrote reports whether this definition wrote something with this signature and version.
func (d *identity) wrote(signature, version string) bool {
	return signature == d.signature && version == d.version
}

// lost returns what a stored state would lose here; nil if nothing. err is the error of decoding the state.
func (d *identity) lost(state json.RawMessage, signature string, err error) *DriftError {
	members := d.members.Lost(state)
	if members == nil && err == nil {
		return nil
	}
	if other, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && other.Field != "" {
		members = distinct(append(members, other.Field))
	}
	return &DriftError{Members: members, Saved: signature, Current: d.signature, Err: err}
}

// and returns a drift that has what e and other have. Either may be nil.
func (e *DriftError) and(other *DriftError) *DriftError {
	switch {
	case e == nil:
		return other
	case other == nil:
		return e
	}
	both := *e
	both.Members = distinct(slices.Concat(e.Members, other.Members))
	both.Intents = distinct(slices.Concat(e.Intents, other.Intents))
	both.Err = errors.Join(e.Err, other.Err)
	return &both
}

// strangers returns the names that are no intents of the definition, each once.
func (d *identity) strangers(intents []string) []string {
	return slices.DeleteFunc(distinct(intents), func(name string) bool { return d.intents[name] })
}

// unknown returns the first name that is no intent, if there is one.
func (d *identity) unknown(intents []string) (name string, found bool) {
	for _, name := range intents {
		if !d.intents[name] {
			return name, true
		}
	}
	return "", false
}

func (d *identity) knows(intents []string) bool {
	_, unknown := d.unknown(intents)
	return !unknown
}

// read is readPayload for a caller that goes on with the run. If this very definition wrote the run, the decision must
// name intents of this definition.
func (d *identity) read(r snapshot.Run) (runPayload, error) {
	payload, err := readPayload(r)
	ours := err == nil && d.wrote(payload.Signature, payload.Version)
	if ours && payload.Next != nil && !d.knows(payload.Next.Intents) {
		err = damagedRun(r, "payload: the decision names what is no intent")
	}
	return payload, err
}

// refusals are the runs that this process has adopted, and has left because it cannot use their parts. The parts of a
// run are not known before it is adopted. A refusal spares the next drain from adopting the run again.
type refusals struct {
	mu  sync.Mutex // protects following field
	all map[snapshot.Key]refusal
}

// A refusal is for a run with one payload. The parts of a run go with its payload: a later save of the same payload
// adds parts, and drops none.
type refusal struct {
	run, payload string
	drift        *DriftError
}

// mostRefusals bounds the memory for refusals. Without a refusal the run is adopted and left once more.
const mostRefusals = 1000

// add notes why a run was refused. payload is as it was adopted.
func (rs *refusals) add(r snapshot.Run, payload json.RawMessage, drift *DriftError) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.all == nil || len(rs.all) >= mostRefusals {
		rs.all = make(map[snapshot.Key]refusal)
	}
	rs.all[r.Key] = refusal{r.ID, digest(string(payload)), drift}
}

// about returns why a run was refused before; nil if it was not, or if it has another payload by now.
func (rs *refusals) about(r snapshot.Run) *DriftError {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if known := rs.all[r.Key]; known.run == r.ID && known.payload == digest(string(r.Payload)) {
		return known.drift
	}
	return nil
}
