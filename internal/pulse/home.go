package pulse

import (
	"reflect"
	"sync"

	"github.com/holdfast-go/holdfast/lock"
)

// A Home keeps the pulses of this process in one database. All stores of the database share it. The zero value is
// ready.
type Home struct {
	mu     sync.Mutex // protects following field
	pulses map[lock.Beater]*Pulse
}

// Pulse returns the pulse that beats through b. All who ask with the same b share it.
func (h *Home) Pulse(b lock.Beater) *Pulse {
	if !reflect.ValueOf(b).Comparable() {
		return New(b)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pulses == nil {
		h.pulses = make(map[lock.Beater]*Pulse)
	}
	if h.pulses[b] == nil {
		h.pulses[b] = New(b)
	}
	return h.pulses[b]
}

// A sharer is a store of a database that has a Home. b is the store as its user has it, which may be a wrapper that has
// beats of its own.
type sharer interface {
	Pulse(b lock.Beater) *Pulse
}

// Of returns the pulse of this process in the database of a store. If the store does not say which other stores are in
// its database, the pulse is shared with nobody. If the store is no lock.Beater, the pulse neither beats nor watches.
func Of(store any) *Pulse {
	b, beats := store.(lock.Beater)
	if s, shares := store.(sharer); shares && beats {
		return s.Pulse(b)
	}
	return New(b)
}
