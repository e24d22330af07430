package sqlitestore

import "sync"

const (
	slice      = 1000 // rows that a sweep looks at by one statement
	mostInVain = 2000 // rows that a limited sweep looks at in vain
)

// A Cursor remembers where the limited sweeps of one process go on. Each looks at a few thousand rows where it finds
// nothing, so that it costs the same whatever the table holds. Another process has a cursor of its own: to keep one
// in the database would cost a write.
type Cursor[P any] struct {
	mu sync.Mutex // protects following field
	at P          // the zero P: the beginning
}

// A Slice is what one step of a sweep has come to.
type Slice[P any] struct {
	Removed, Rows int // Rows were looked at
	Last          P   // of these
}

// Sweep removes at most limit rows by steps, and returns how many it has removed. Without a limit it looks at
// everything. A step looks at the next rows after a place, and removes at most most of them.
func (c *Cursor[P]) Sweep(limit int, step func(after P, rows, most int) (Slice[P], error)) (removed int, err error) {
	w := walk[P]{limit: limit}
	if limit > 0 {
		w.at = c.swap(w.at)
		defer func() { c.swap(w.at) }()
	}
	for !w.over && err == nil {
		err = w.step(step)
	}
	return w.removed, err
}

func (c *Cursor[P]) swap(at P) (before P) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, c.at = c.at, at
	return before
}

// A walk is one sweep on its way through the table.
type walk[P any] struct {
	limit         int
	at            P
	removed, vain int // rows, and rows since the last that was removed
	wrapped, over bool
}

func (w *walk[P]) step(step func(after P, rows, most int) (Slice[P], error)) error {
	most := slice
	if w.limit > 0 {
		most = min(most, w.limit-w.removed)
	}
	got, err := step(w.at, slice, most)
	w.removed += got.Removed
	if err != nil {
		return err
	}
	if w.limit > 0 && w.removed == w.limit {
		w.over = true // this slice may have more
		return nil
	}
	if w.vain += got.Rows; got.Removed > 0 {
		w.vain = 0
	}
	if w.at = got.Last; got.Rows < slice {
		var beginning P
		w.over = w.wrapped || w.limit == 0
		w.at, w.wrapped = beginning, true
	}
	w.over = w.over || w.limit > 0 && w.vain >= mostInVain
	return nil
}
