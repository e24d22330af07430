package sqlitestore

import "sync"

const (
	slice      = 1000 // rows that one statement looks at
	mostInVain = 2000 // rows of a vain limited sweep
)

// A Cursor remembers where the limited sweeps of one process go on. A sweep that finds nothing looks at a few thousand
// rows, so that its cost does not grow with the table. Each process has a cursor of its own: a cursor in the database
// would cost a write.
type Cursor[P any] struct {
	mu sync.Mutex // protects following field
	at P          // the zero P is the beginning
}

// A Slice is the result of one step of a sweep.
type Slice[P any] struct {
	Removed, Rows int // Rows were looked at
	Last          P   // the last of these rows
}

// Sweep removes at most limit rows in steps, and returns how many it has removed. Without a limit, it looks at all
// rows. A step looks at the next rows after a place, and removes at most most of them.
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
	limit int
	at    P
	// removed counts removed rows. vain counts the rows since the last removed row.
	removed, vain int
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
