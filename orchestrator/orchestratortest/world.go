package orchestratortest

import (
	"sync"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A World holds what outlives a process. The zero World is ready.
type World struct {
	// Checkpoints and Snapshots are the stores that the processes share. Start makes stores in memory if they are nil.
	Checkpoints checkpoint.Store
	Snapshots   snapshot.Store

	once sync.Once
}

func (w *World) open() {
	w.once.Do(func() {
		if w.Checkpoints == nil {
			w.Checkpoints = new(checkpoint.Memory)
		}
		if w.Snapshots == nil {
			w.Snapshots = new(snapshot.Memory)
		}
	})
}
