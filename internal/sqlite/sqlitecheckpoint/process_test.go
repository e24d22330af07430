package sqlitecheckpoint_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

const (
	processes  = 4
	goroutines = 4
	contention = 2 * time.Second
	leastCalls = 15 // of each goroutine
)

// A process that takes a session settles on top of the turn that its claim returned. It reports each acknowledged turn.
func TestProcesses(t *testing.T) {
	dsn := testenv.SQLite(t)
	s := create(t, sqlitetest.Open(t, dsn), nil)
	var children []sqlitetest.Child
	for range processes {
		children = append(children, sqlitetest.Start(t, "contend", dsn))
	}
	acknowledged := make(map[string]string) // run by session and turn
	for _, c := range children {
		for c.Out.Scan() {
			turn, run, _ := strings.Cut(c.Out.Text(), " ")
			if other, ok := acknowledged[turn]; ok {
				t.Errorf("turn %s was acknowledged to %s and %s", turn, other, run)
			}
			acknowledged[turn] = run
		}
		if err := c.Cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	kept := keptRuns(t, s)
	for turn, run := range acknowledged {
		if kept[turn] != run {
			t.Errorf("turn %s was acknowledged to %q, and %q is kept", turn, run, kept[turn])
		}
	}
	if len(acknowledged) < 20 {
		t.Errorf("only %d turns were settled", len(acknowledged))
	}
	t.Logf("%d turns acknowledged, %d kept", len(acknowledged), len(kept))
}

// keptRuns returns the runs of all sessions, after checking that each follows the one before.
func keptRuns(t *testing.T, s *sqlitecheckpoint.Store) map[string]string {
	t.Helper()
	kept := make(map[string]string)
	for session, err := range s.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: "bot"}) {
		if err != nil {
			t.Fatal(err)
		}
		next, follows := -1, ""
		for cp, err := range s.Turns(t.Context(), bot(session), checkpoint.Newest) {
			if err != nil {
				t.Fatal(err)
			}
			if next >= 0 && (cp.Turn != next-1 || cp.RunID != follows) {
				t.Errorf("session %s: turn %d of %s precedes turn %d, which follows %s",
					session, cp.Turn, cp.RunID, next, follows)
			}
			next = cp.Turn
			if err := json.Unmarshal(cp.State, &follows); err != nil {
				t.Fatal(err)
			}
			kept[fmt.Sprintf("%s/%d", session, cp.Turn)] = cp.RunID
		}
		if next != 0 {
			t.Errorf("session %s: the oldest turn is %d", session, next)
		}
	}
	return kept
}

// contend settles turns of three sessions with four goroutines and two stores.
func contend(dsn string, out io.Writer) error {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), contention)
	defer cancel()
	stores := []*sqlitecheckpoint.Store{sqlitecheckpoint.New(db, nil), sqlitecheckpoint.New(db, nil)}
	var wg sync.WaitGroup
	var mu sync.Mutex // protects out
	errs := make([]error, goroutines)
	for i := range goroutines {
		wg.Go(func() {
			for n := 0; (n < leastCalls || ctx.Err() == nil) && errs[i] == nil; n++ {
				var settled string
				if settled, errs[i] = contendOnce(stores[i%len(stores)]); settled != "" {
					mu.Lock()
					fmt.Fprintln(out, settled)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func contendOnce(s *sqlitecheckpoint.Store) (settled string, err error) {
	ctx := context.Background()
	session := fmt.Sprintf("s%d", rand.N(3))
	ttl := time.Millisecond + rand.N(5*time.Millisecond)
	run := fmt.Sprintf("%016x", rand.Uint64())
	c, err := s.Claim(ctx, bot(session), checkpoint.ClaimRequest{Nonce: run, TTL: ttl})
	if errors.Is(err, lock.ErrHeld) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	cp, follows := checkpoint.Checkpoint{RunID: run}, ""
	if c.Last != nil {
		cp.Turn, follows = c.Last.Turn+1, c.Last.RunID
	}
	cp.State, _ = json.Marshal(follows)
	o := checkpoint.AppendOptions{Keep: checkpoint.KeepAll, Release: rand.N(2) == 0}
	if rand.N(4) == 0 {
		go s.Append(ctx, c.Lease, cp, o) // a copy that comes late
	}
	err = s.Append(ctx, c.Lease, cp, o)
	if errors.Is(err, lock.ErrFenced) {
		return "", nil
	}
	return fmt.Sprintf("%s/%d %s", session, cp.Turn, run), err
}

// If a process is killed, the file opens, with every turn that the process had acknowledged.
func TestKill(t *testing.T) {
	dsn := testenv.SQLite(t)
	s := create(t, sqlitetest.Open(t, dsn), nil)
	seen := 0
	for range 4 {
		c := sqlitetest.Start(t, "append", dsn)
		last := -1
		for more := 1 + rand.N(60); c.Out.Scan(); more-- {
			if _, err := fmt.Sscan(c.Out.Text(), &last); err != nil {
				t.Fatal(err)
			}
			if more == 0 {
				c.Cmd.Process.Kill()
			}
		}
		if err := c.Cmd.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		if last < seen {
			t.Fatalf("turn %d was acknowledged after %d", last, seen)
		}
		if seen = len(keptRuns(t, s)); seen != last+1 && seen != last+2 {
			t.Errorf("%d turns are kept, %d were acknowledged", seen, last+1)
		}
		var check string
		if err := sqlitetest.Open(t, dsn).QueryRow("PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
			t.Fatal(check, err)
		}
	}
}

// appendForever reports each turn that it has settled, turn after turn.
func appendForever(dsn string, out io.Writer) error {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	ctx, s := context.Background(), sqlitecheckpoint.New(db, nil)
	c, err := rob(ctx, s, "s", checkpoint.ClaimRequest{Nonce: fmt.Sprint(rand.Uint64()), TTL: time.Hour})
	cp := checkpoint.Checkpoint{State: json.RawMessage(`""`)}
	if c.Last != nil {
		cp = *c.Last
		cp.Turn++
	}
	for ; err == nil; cp.Turn++ {
		cp.State, _ = json.Marshal(cp.RunID)
		cp.RunID = fmt.Sprintf("run-%d", cp.Turn)
		if err = s.Append(ctx, c.Lease, cp, checkpoint.AppendOptions{Keep: checkpoint.KeepAll}); err == nil {
			fmt.Fprintln(out, cp.Turn)
		}
	}
	return err
}
