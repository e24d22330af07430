package orchestratortest

import (
	"sync"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A World holds what outlives a process. The zero World is ready.
type World struct {
	// Checkpoints, Snapshots and Ledger are what the processes share. Start makes them in memory if they are nil.
	Checkpoints checkpoint.Store
	Snapshots   snapshot.Store
	Ledger      ledger.Ledger

	once sync.Once
}

// seenBy returns the checkpoint store as a process sees it.
func (w *World) seenBy(l *life) checkpoint.Store {
	s := &checkpoints{w.Checkpoints, l}
	if b, ok := w.Checkpoints.(checkpoint.Beater); ok {
		return &beating{s, b}
	}
	return s
}

func (w *World) open() {
	w.once.Do(func() {
		if w.Checkpoints == nil {
			w.Checkpoints = new(checkpoint.Memory)
		}
		if w.Snapshots == nil {
			w.Snapshots = new(snapshot.Memory)
		}
		if w.Ledger == nil {
			w.Ledger = new(ledger.Memory)
		}
	})
}
