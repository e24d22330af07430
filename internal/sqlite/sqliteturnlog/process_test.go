package sqliteturnlog_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
)

// What Record has acknowledged is there after its process was killed.
func TestKilled(t *testing.T) {
	dsn := testenv.SQLite(t)
	l := create(t, sqlitetest.Open(t, dsn), nil)
	for round := range 5 {
		c := sqlitetest.Start(t, "record", dsn)
		last := 0
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
		all, err := l.Restore(t.Context(), "run")
		if err != nil || len(all) <= last {
			t.Fatalf("%d entries, %v, and entry %d was acknowledged", len(all), err, last)
		}
		for i, e := range all {
			if !e.At.Equal(at(i)) {
				t.Fatalf("entry %d is of %v", i, e.At)
			}
		}
	}
}

// recordForever records the entries of one run, from the first one on, and says which it has recorded.
func recordForever(dsn string, out io.Writer) error {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	l := sqliteturnlog.New(db, nil)
	for n := 0; ; n++ {
		if err := l.Record(context.Background(), entry("run", turnlog.ToolReceived, n)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, n); err != nil {
			return err
		}
	}
}

const (
	processes = 3
	contended = 150
)

// Processes record the same entries at once. Each entry is there once, and each call succeeds. Of other states one
// stays.
func TestProcesses(t *testing.T) {
	dsn := testenv.SQLite(t)
	l := create(t, sqlitetest.Open(t, dsn), nil)
	var children []sqlitetest.Child
	for range processes {
		children = append(children, sqlitetest.Start(t, "contend", dsn))
	}
	won := make(map[string]int)
	for _, c := range children {
		for c.Out.Scan() {
			won[c.Out.Text()]++
		}
		if err := c.Cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range []string{"same", "different"} {
		if all, err := l.Restore(t.Context(), run); err != nil || len(all) != contended {
			t.Errorf("%s: %d entries, %v, want %d", run, len(all), err, contended)
		}
	}
	for n := range contended {
		if won[fmt.Sprint(n)] != 1 {
			t.Errorf("%d processes have recorded a state of their own as entry %d", won[fmt.Sprint(n)], n)
		}
	}
}

// contend records what the other processes record too, and an entry with a state of its own beside each.
func contend(dsn string, out io.Writer) error {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	l := sqliteturnlog.New(db, nil)
	ctx := context.Background()
	for n := range contended {
		if err := l.Record(ctx, entry("same", turnlog.ToolReceived, n)); err != nil {
			return err
		}
		own := entry("different", turnlog.ToolReceived, n)
		own.State = fmt.Appendf(nil, `{"pid":%d}`, os.Getpid())
		switch err := l.Record(ctx, own); {
		case err == nil:
			fmt.Fprintln(out, n)
		case !errors.Is(err, turnlog.ErrChanged):
			return err
		}
	}
	return nil
}
