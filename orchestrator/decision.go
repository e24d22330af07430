package orchestrator

import (
	"encoding/json"
	"sync"
)

// A decision is what an iteration runs. A resume could decide otherwise, and its effects would be other effects. So a
// decision is durable before an effect is issued under it, and before a tool is called that has effects. A turn without
// effects does not pay for that.
type decision struct {
	iteration int
	next      storedNext

	// signature and version are of the definition that decides.
	signature, version string

	// state is what the branches get. It is nil if a resume has it from what is saved.
	state json.RawMessage

	// asked is runPayload.Asked.
	asked []string

	// fan is the fan-out; nil if one intent runs.
	fan *fan

	mu    sync.Mutex // protects following field
	saved bool
}

// into adds the decision to a payload that is about to be saved.
func (d *decision) into(p *runPayload) {
	if d == nil || p.Next != nil {
		return
	}
	p.Next, p.Asked, p.Signature, p.Version = &d.next, d.asked, d.signature, d.version
	if d.state != nil {
		p.State = d.state
	}
}
