package sqlite_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// Every statement finds its rows by an index, and in the order that it needs. So the cost of a list grows with what it
// yields. SQLite need not have statistics.
func TestPlans(t *testing.T) {
	eachContract(t, func(t *testing.T, c contract) {
		sent, db := sqlitetest.Tamper(t, testenv.SQLite(t))
		s := c.create(t, db, options{})
		wantAll(t, "at first", s) // which prepares them
		if c.fill != "" {
			sqlitetest.Exec(t, db, c.fill, 2000)
		}
		texts := slices.DeleteFunc(slices.Clone(sent.Prepared()), func(text string) bool {
			return slices.ContainsFunc(c.scans, func(part string) bool { return strings.Contains(text, part) })
		})
		// These are of rows that are made within the statement.
		inner := strings.NewReplacer("SCAN CONSTANT ROW", "", "SCAN json_each VIRTUAL", "", "SCAN m VIRTUAL", "",
			"SCAN (subquery", "", "SCAN d\n", "", "SCAN b\n", "")
		for _, analyzed := range []bool{false, true} {
			if analyzed {
				sqlitetest.Exec(t, db, "ANALYZE")
			}
			found := make(map[string]bool)
			for _, text := range texts {
				args := 0
				for strings.Contains(text, fmt.Sprint("?", args+1)) {
					args++
				}
				plan := sqlitetest.Plan(t, db, text, args)
				left := inner.Replace(plan)
				if strings.Contains(left, "SCAN") || strings.Contains(left, "TEMP B-TREE") {
					t.Errorf("analyzed %t: plan of %s:\n%s", analyzed, text, plan)
				}
				for part, by := range c.plans {
					if !strings.Contains(strings.Join(strings.Fields(text), " "), part) {
						continue
					}
					if found[part] = true; !strings.Contains(plan, by) {
						t.Errorf("analyzed %t: plan of %s:\n%swant %q", analyzed, text, plan, by)
					}
				}
			}
			for part := range c.plans {
				if !found[part] {
					t.Errorf("no statement has %q", part)
				}
			}
		}
	})
}

// Pages meet without a gap, and hold no connection. So a pool of one connection serves a sequence whose loop writes.
func TestPages(t *testing.T) {
	eachContract(t, func(t *testing.T, c contract) {
		s, db := c.onOne(t, options{})
		if c.fill != "" {
			sqlitetest.Exec(t, db, c.fill, 1000)
		}
		for _, l := range c.lists(t, s) {
			n := 0
			for name, err := range l.all {
				if err != nil {
					t.Fatal(err)
				}
				if inUse := db.Stats().InUse; inUse != 0 {
					t.Fatalf("%d connections are held", inUse)
				}
				if name != l.name(n) {
					t.Fatalf("%s: %d is %s, want %s", l.what, n, name, l.name(n))
				}
				if n%100 == 0 && l.touch != nil {
					want(t, l.touch(t.Context(), n), nil)
				}
				n++
			}
			if n != l.n {
				t.Errorf("%s: %d are listed, want %d", l.what, n, l.n)
			}
		}
	})
}

// Batches of what forgets meet without a gap, and leave the rest.
func TestBatches(t *testing.T) {
	eachContract(t, func(t *testing.T, c contract) {
		if c.sweep.call == nil {
			t.Skip("no rows of it are forgotten in batches")
		}
		s, db := c.onOne(t, options{age: time.Hour})
		const n = 2345
		sqlitetest.Exec(t, db, c.fill, n)
		sqlitetest.Exec(t, db, c.sweep.spoil)
		stay := 0
		for i := range n {
			if c.sweep.stays(i) {
				stay++
			}
		}
		steps := [][2]int{{250, 250}, {1, 1}, {0, n - stay - 251}, {0, 0}}
		if !c.sweep.limited {
			steps = [][2]int{{0, n - stay}, {0, 0}}
		}
		for _, step := range steps {
			if got, err := c.sweep.call(t.Context(), s, step[0]); got != step[1] || err != nil {
				t.Errorf("with limit %d forgets %d, %v; want %d", step[0], got, err, step[1])
			}
		}
		if left := count(t, db, c.sweep.left); left != stay {
			t.Errorf("%d are left, want %d", left, stay)
		}
		if rest := c.sweep.rest; rest != "" && count(t, db, rest) != 0 {
			t.Errorf("there are some of: %s", rest)
		}
	})
}
