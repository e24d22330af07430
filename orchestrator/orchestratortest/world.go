package orchestratortest

import (
	"sync"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A World holds what outlives a process. The zero World is ready.
type World struct {
	// Checkpoints, Snapshots and Ledger are what the processes share. Start makes them in memory if they are nil.
	Checkpoints checkpoint.Store
	Snapshots   snapshot.Store
	Ledger      ledger.Ledger

	// TurnLog is the turn log that the processes share. Start makes it in memory if it is nil. A process uses it if its
	// Options have a TurnLog, or if it was set before the first Start. The phases are those of the TurnLog of the
	// Options, or else those of this one. A bot without a turn log has no steps of it.
	TurnLog turnlog.Log

	once   sync.Once
	logged bool // TurnLog was set before the first Start
}

// seenBy returns the checkpoint store as a process sees it.
func (w *World) seenBy(l *life) checkpoint.Store {
	s := &checkpoints{w.Checkpoints, l}
	b, beats := w.Checkpoints.(lock.Beater)
	i, inspects := w.Checkpoints.(checkpoint.Inspector)
	switch {
	case beats && inspects:
		return struct {
			*beating
			*inspecting
		}{&beating{s, b}, &inspecting{i, l}}
	case beats:
		return &beating{s, b}
	case inspects:
		return struct {
			*checkpoints
			*inspecting
		}{s, &inspecting{i, l}}
	}
	return s
}

// logFor returns the turn log of a process whose Options have this one; nil if the process has none.
func (w *World) logFor(l *life, own turnlog.Log) turnlog.Log {
	if own == nil && !w.logged {
		return nil
	}
	checked, ok := own.(*turnlog.Checked)
	if !ok {
		checked, ok = w.TurnLog.(*turnlog.Checked)
	}
	if !ok {
		checked = turnlog.New(w.TurnLog, nil)
	}
	return checked.Over(&phases{w.TurnLog, l})
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
		w.logged = w.TurnLog != nil
		if !w.logged {
			w.TurnLog = new(turnlog.Memory)
		}
	})
}
