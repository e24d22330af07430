package orchestrator_test

import "github.com/holdfast-go/holdfast/internal/test/faulttest"

// A wire connects one process with its stores.
type wire struct {
	world

	// pass gets each call of the process that changes data, and returns the answer of the process.
	pass faulttest.Around
}

// ends are the stores as the process sees them.
func (w *wire) ends() world {
	return worldOf(
		faulttest.Checkpoints(w.Checkpoints, faulttest.On(w.pass, "Claim", "Renew", "Append", "Mark", "Remove")),
		faulttest.Snapshots(w.Snapshots, faulttest.On(w.pass, "Begin", "Adopt", "Save", "Delete")))
}
