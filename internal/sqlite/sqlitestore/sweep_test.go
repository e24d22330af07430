package sqlitestore_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// A shelf has rows by number. A true row is to be removed.
type shelf struct {
	rows   map[int]bool
	most   int // the highest number
	looked int
}

func (s *shelf) step(after, rows, most int) (got sqlitestore.Slice[int], err error) {
	for at := after + 1; at <= s.most && got.Rows < rows; at++ {
		over, there := s.rows[at]
		if !there {
			continue
		}
		got.Rows, got.Last = got.Rows+1, at
		if over && got.Removed < most {
			delete(s.rows, at)
			got.Removed++
		}
	}
	s.looked += got.Rows
	return got, nil
}

func newShelf(rows int, over func(i int) bool) *shelf {
	s := &shelf{rows: make(map[int]bool, rows), most: rows}
	for i := 1; i <= rows; i++ {
		s.rows[i] = over(i)
	}
	return s
}

// A limited sweep that finds nothing looks at a part of the rows, however many there are. Repeated sweeps see all rows.
func TestSweepLooksAtAPart(t *testing.T) {
	const rows = 50_000
	s := newShelf(rows, func(i int) bool { return i == rows-1 })
	var c sqlitestore.Cursor[int]
	removed := 0
	for range rows/2000 + 1 {
		before := s.looked
		n, err := c.Sweep(100, s.step)
		if err != nil || s.looked-before > 4000 {
			t.Fatalf("a sweep looks at %d rows, %v", s.looked-before, err)
		}
		removed += n
	}
	if removed != 1 {
		t.Errorf("removed %d rows, want 1", removed)
	}
}

// While there are rows to remove, a sweep goes on up to its limit. The next sweep removes the rest.
func TestSweepIsLimited(t *testing.T) {
	for _, limit := range []int{0, 1, 7, 999, 1000, 1001} {
		s := newShelf(5000, func(i int) bool { return i%2 == 0 })
		var c sqlitestore.Cursor[int]
		removed, sweeps := 0, 0
		for n := -1; n != 0 && sweeps < 5000; sweeps++ {
			var err error
			if n, err = c.Sweep(limit, s.step); err != nil || limit > 0 && n > limit {
				t.Fatalf("removed %d with limit %d, %v", n, limit, err)
			}
			removed += n
		}
		if removed != 2500 || limit > 0 && sweeps > 2500/limit+2 {
			t.Errorf("with limit %d %d sweeps have removed %d rows, want 2500", limit, sweeps, removed)
		}
	}
}

// If a step fails, the next sweep tries it again.
func TestSweepFails(t *testing.T) {
	s := newShelf(3000, func(i int) bool { return i > 2000 })
	var c sqlitestore.Cursor[int]
	broken := errors.New("broken")
	for range 3 {
		if n, err := c.Sweep(10, func(int, int, int) (sqlitestore.Slice[int], error) {
			return sqlitestore.Slice[int]{Removed: 1}, broken
		}); n != 1 || !errors.Is(err, broken) {
			t.Fatalf("removed %d, %v", n, err)
		}
	}
	for removed := 0; removed < 1000; {
		n, err := c.Sweep(10, s.step)
		if err != nil || n == 0 && removed > 0 {
			t.Fatalf("after %d rows %d are removed, %v", removed, n, err)
		}
		removed += n
	}
}
