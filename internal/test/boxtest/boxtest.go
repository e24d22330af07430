// Package boxtest tests an inbox with real processes: people who answer at once in several of them, and a process that
// is killed while it posts.
package boxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

const (
	processes = 3
	questions = 40
)

// An Opener opens the store of a database. close ends it.
type Opener func(where string) (s inbox.Store, close func(), err error)

// Roles are the roles that the tests of this package start.
func Roles(open Opener) map[string]testenv.Role {
	type work func(context.Context, inbox.Store, io.Writer) error
	roles := make(map[string]testenv.Role)
	for name, do := range map[string]work{"contend": contend, "post": postAll} {
		roles[name] = func(where string, out io.Writer) error {
			s, end, err := open(where)
			if err != nil {
				return err
			}
			defer end()
			return do(context.Background(), s, out)
		}
	}
	return roles
}

func key(session string) inbox.Key { return inbox.Key{Orchestrator: "bot", Session: session} }

func answer(session, id, by string) inbox.Item {
	return inbox.Item{Key: key(session), Kind: inbox.Answer, ID: id, By: by, Data: []byte(`"` + by + `"`)}
}

// contend answers each question at the same time as the other processes, and says which it has decided.
func contend(ctx context.Context, s inbox.Store, out io.Writer) error {
	by := fmt.Sprint("process ", os.Getpid())
	for n := range questions {
		if err := meet(ctx, s, fmt.Sprint("before question ", n), by); err != nil {
			return err
		}
		first, err := s.Post(ctx, answer("contended", fmt.Sprint(n), by))
		if err != nil {
			return err
		}
		if first {
			fmt.Fprintln(out, n)
		}
	}
	return nil
}

// meet waits until all processes have come to a place.
func meet(ctx context.Context, s inbox.Store, place, by string) error {
	if _, err := s.Post(ctx, answer(place, by, by)); err != nil {
		return err
	}
	for here := 0; here < processes; {
		here = 0
		for _, err := range s.Items(ctx, key(place), inbox.Answer) {
			if err != nil {
				return err
			}
			here++
		}
	}
	return nil
}

// TestProcesses shows that of several processes that answer a question at once one decides, and its answer stays. s is
// the store of where.
func TestProcesses(t *testing.T, s inbox.Store, where string) {
	t.Helper()
	var children []testenv.Child
	for range processes {
		children = append(children, testenv.StartRole(t, "contend", where))
	}
	decided := make(map[string]string)
	won := make(map[string]int)
	for _, c := range children {
		by := fmt.Sprint("process ", c.Cmd.Process.Pid)
		for c.Out.Scan() {
			id := c.Out.Text()
			if other := decided[id]; other != "" {
				t.Errorf("%s and %s have decided question %s", other, by, id)
			}
			decided[id] = by
			won[by]++
		}
		if err := c.Cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for it, err := range s.Items(t.Context(), key("contended"), inbox.Answer) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; it.By != decided[it.ID] || string(it.Data) != `"`+it.By+`"` {
			t.Errorf("question %s is answered by %s with %s, and was decided by %s",
				it.ID, it.By, it.Data, decided[it.ID])
		}
	}
	if n != questions || len(decided) != questions {
		t.Errorf("%d answers, %d decisions, want %d", n, len(decided), questions)
	}
	t.Logf("decided: %v", won)
}

// postAll answers questions without an end, and says which it has answered.
func postAll(ctx context.Context, s inbox.Store, out io.Writer) error {
	for n := 0; ; n++ {
		first, err := s.Post(ctx, answer("killed", fmt.Sprint(n), "ada"))
		if err != nil || !first {
			return errors.Join(err, fmt.Errorf("question %d: first is %t", n, first))
		}
		if _, err := fmt.Fprintln(out, n); err != nil {
			return err
		}
	}
}

// TestKilled shows that what Post has acknowledged is there after its process was killed, and that another process may
// post all of it again. s is the store of where.
func TestKilled(t *testing.T, s inbox.Store, where string) {
	t.Helper()
	for round := range 5 {
		c := testenv.StartRole(t, "post", where)
		last := -1
		for last < 10*(round+1) && c.Out.Scan() {
			n, err := strconv.Atoi(c.Out.Text())
			if err != nil {
				t.Fatal(err)
			}
			last = n
		}
		if err := c.Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Cmd.Wait() // it was killed
		there := make(map[string]bool)
		for it, err := range s.Items(t.Context(), key("killed"), inbox.Answer) {
			if err != nil || it.By != "ada" {
				t.Fatalf("%q by %q, %v", it.ID, it.By, err)
			}
			there[it.ID] = true
		}
		for n := range last + 1 {
			if !there[fmt.Sprint(n)] {
				t.Errorf("answer %d was acknowledged, and is lost", n)
			}
		}
		if first, err := s.Post(t.Context(), answer("killed", fmt.Sprint(last), "bob")); err != nil || first {
			t.Errorf("bob decides what ada has answered: %t, %v", first, err)
		}
	}
}
