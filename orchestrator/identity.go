package orchestrator

import "github.com/holdfast-go/holdfast/snapshot"

// An identity says which stored rows a definition wrote, and which it can use.
type identity struct {
	name, signature, version string
	intents                  map[string]bool

	// migrates says that the definition has a Migrate.
	migrates bool
}

// foreign returns a *DriftError if this definition may not use what the definition with this signature wrote.
func (d *identity) foreign(signature string, force bool) error {
	if signature == d.signature || d.migrates || force {
		return nil
	}
	return &DriftError{Saved: signature, Current: d.signature}
}

// wrote reports whether this definition wrote something with this signature and version.
func (d *identity) wrote(signature, version string) bool {
	return signature == d.signature && version == d.version
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
