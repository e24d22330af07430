package pgcheckpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

func key(session string) checkpoint.Key {
	return checkpoint.Key{Orchestrator: "bot", Session: session}
}

func request() checkpoint.ClaimRequest {
	return checkpoint.ClaimRequest{Owner: "test", Nonce: fmt.Sprintf("n%d", rand.Int64()), TTL: time.Hour}
}

// claim takes the session from its owner. If it has no owner, claim claims it.
func claim(t *testing.T, s checkpoint.Store, session string) checkpoint.Claimed {
	t.Helper()
	r := request()
	c, err := s.Claim(t.Context(), key(session), r)
	if held, ok := errors.AsType[*checkpoint.HeldError](err); ok {
		r.From = held.Fence
		c, err = s.Claim(t.Context(), key(session), r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func turn(n int) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{Turn: n, RunID: fmt.Sprintf("run-%d", n), State: json.RawMessage(`{"n":1}`)}
}

// If a server dies in the middle, the caller gets an error, and a repeat tells the outcome.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	p := pgtest.PoolOn(t, server.URL)
	s := pgcheckpoint.New(p, nil)
	create(t, p, s)
	l := claim(t, s, "a").Lease
	next := 0
	for range 3 {
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			server.Kill()
		}()
		var err error
		for err == nil {
			if err = s.Append(t.Context(), l, turn(next), checkpoint.AppendOptions{Keep: 10}); err == nil {
				next++
			}
		}
		<-killed
		for _, verdict := range []error{
			lock.ErrFenced, checkpoint.ErrConflict, checkpoint.ErrInvalid, checkpoint.ErrSchema, checkpoint.ErrNotFound,
		} {
			if errors.Is(err, verdict) {
				t.Errorf("a dead server is reported as %v", err)
			}
		}
		if _, err := s.Claim(t.Context(), key("a"), request()); err == nil || errors.Is(err, lock.ErrHeld) {
			t.Errorf("a claim without a server returns %v", err)
		}
		server.Restart()
		repeat(t, func() error { return s.Append(t.Context(), l, turn(next), checkpoint.AppendOptions{Keep: 10}) })
		next++
		wantNewest(t, s, "a", next-1, 10)
	}
}

// repeat calls f until the pool has noticed which of its connections are dead.
func repeat(t *testing.T, f func() error) {
	t.Helper()
	for {
		err := f()
		if err == nil {
			return
		}
		if t.Context().Err() != nil || errors.Is(err, lock.ErrFenced) || errors.Is(err, checkpoint.ErrConflict) {
			t.Fatal(err)
		}
	}
}

func wantNewest(t *testing.T, s checkpoint.Store, session string, newest, kept int) {
	t.Helper()
	want := newest
	for cp, err := range s.Turns(t.Context(), key(session), checkpoint.Newest) {
		if err != nil {
			t.Fatal(err)
		}
		if cp.Turn != want || cp.RunID != turn(want).RunID {
			t.Fatalf("turn %d of %s, want %d", cp.Turn, cp.RunID, want)
		}
		want--
	}
	if got := newest - want; got != min(kept, newest+1) {
		t.Errorf("%d turns are kept, want %d", got, kept)
	}
}

// A server that hangs costs no more than the caller's deadline.
func TestServerStopped(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	p := pgtest.PoolOn(t, server.URL)
	s := pgcheckpoint.New(p, nil)
	create(t, p, s)
	l := claim(t, s, "a").Lease
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Append(ctx, l, turn(0), checkpoint.AppendOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Append returns %v", err)
	}
	server.Continue()
	repeat(t, func() error { return s.Append(t.Context(), l, turn(0), checkpoint.AppendOptions{}) })
	wantNewest(t, s, "a", 0, 1)
}

// A full disk never settles half a turn.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{TmpfsMB: 96})
	p := pgtest.PoolOn(t, server.URL)
	s := pgcheckpoint.New(p, nil)
	create(t, p, s)
	l := claim(t, s, "a").Lease
	server.FillDisk()
	// A state that compresses badly soon needs another page.
	noise := make([]byte, 1<<16)
	next := 0
	var err error
	for err == nil {
		cp := turn(next)
		for i := range noise {
			noise[i] = byte('a' + rand.IntN(26))
		}
		cp.State = json.RawMessage(`"` + string(noise) + `"`)
		if err = s.Append(t.Context(), l, cp, checkpoint.AppendOptions{Keep: checkpoint.KeepAll}); err == nil {
			next++
		}
	}
	if errors.Is(err, lock.ErrFenced) || errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("a full disk is reported as %v", err)
	}
	server.FreeDisk()
	repeat(t, func() error {
		return s.Append(t.Context(), l, turn(next), checkpoint.AppendOptions{Keep: checkpoint.KeepAll})
	})
	wantNewest(t, s, "a", next, next+1)
}

func TestPoolClosed(t *testing.T) {
	p := pgtest.Pool(t)
	s := pgcheckpoint.New(p, nil)
	l := claim(t, s, "a").Lease
	p.Close()
	_, claimed := s.Claim(t.Context(), key("a"), request())
	_, renewed := s.Renew(t.Context(), time.Hour, []checkpoint.Lease{l})
	_, loaded := checkpoint.Load(t.Context(), s, key("a"), 0)
	for i, err := range []error{
		claimed, renewed, loaded, s.Append(t.Context(), l, turn(0), checkpoint.AppendOptions{}),
		s.Mark(t.Context(), l, checkpoint.Marks{Release: true}), s.Delete(t.Context(), l),
	} {
		if err == nil || errors.Is(err, lock.ErrFenced) || errors.Is(err, lock.ErrHeld) ||
			errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("method %d on a closed pool returns %v", i, err)
		}
	}
}

// If tables are missing or lack a column, the error names them and the remedy.
func TestSchemaMissing(t *testing.T) {
	p := testenv.Postgres(t)
	for _, prefix := range []string{"none_", "no_such_schema.holdfast_", "old_"} {
		s := pgcheckpoint.New(p, &pgcheckpoint.Options{Prefix: prefix})
		if prefix == "old_" {
			create(t, p, s)
			const older = "ALTER TABLE old_sessions DROP COLUMN summarized; ALTER TABLE old_turns DROP COLUMN version"
			if _, err := p.Exec(t.Context(), older); err != nil {
				t.Fatal(err)
			}
		}
		l := checkpoint.Lease{Key: key("a"), Fence: lock.Fence{Epoch: 1, Nonce: "n"}}
		_, claimed := s.Claim(t.Context(), key("a"), request())
		_, loaded := checkpoint.Load(t.Context(), s, key("a"), 0)
		appended := s.Append(t.Context(), l, turn(0), checkpoint.AppendOptions{})
		marked := s.Mark(t.Context(), l, checkpoint.Marks{Summarized: 1})
		for i, err := range []error{claimed, loaded, appended, marked} {
			if !errors.Is(err, checkpoint.ErrSchema) || !strings.Contains(err.Error(), prefix+"sessions") ||
				!strings.Contains(err.Error(), "migrations.Up") {
				t.Errorf("%s, method %d: %v", prefix, i, err)
			}
		}
	}
}

// A head whose newest turn was removed by hand is not taken for a session without turns.
func TestRowMissing(t *testing.T) {
	p := testenv.Postgres(t)
	s := pgcheckpoint.New(p, nil)
	l := claim(t, s, "a").Lease
	for n := range 2 {
		if err := s.Append(t.Context(), l, turn(n), checkpoint.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Exec(t.Context(), s.Fill("DELETE FROM {turns} WHERE turn = 1")); err != nil {
		t.Fatal(err)
	}
	r := request()
	r.From = l.Fence
	if _, err := s.Claim(t.Context(), key("a"), r); !errors.Is(err, checkpoint.ErrDamaged) {
		t.Errorf("claim returns %v", err)
	}
}

// The stores refuse exactly the documents that PostgreSQL refuses, number by number and string by string.
func TestValuesAsPostgres(t *testing.T) {
	p := testenv.Postgres(t)
	r := rand.New(rand.NewPCG(1, 2))
	digits := func(n int) string { return strings.Repeat(string(rune('0'+r.IntN(10))), n) }
	number := func() string {
		whole := digits(1)
		if r.IntN(3) == 0 {
			whole = "1" + digits(r.IntN(40))
		}
		doc := whole
		if r.IntN(2) == 0 {
			doc += "." + digits(1+r.IntN(20))
		}
		if e := []int{0, 9, 131060 + r.IntN(30), -16360 - r.IntN(40), -131072, 131072}[r.IntN(6)]; e != 0 {
			doc += fmt.Sprintf("e%d", e)
		}
		return doc
	}
	pieces := []string{`\u0000`, `\ud83d`, `\ude00`, `\ud83d\ude00`, `a`, "é", "\U0001F600", `\\`, `\n`, `\u00e9`, "\x7f", "\t", `\q`, `\u12`}
	for range 2000 {
		doc := number()
		if r.IntN(2) == 0 {
			doc = `"` + pieces[r.IntN(len(pieces))] + pieces[r.IntN(len(pieces))] + `"`
		}
		var ok bool
		_, err := p.Exec(t.Context(), "SELECT $1::text::jsonb", doc)
		ok = err == nil
		if ours := jsonvalue.Check([]byte(doc)); ours == nil && !ok {
			t.Errorf("%s: accepted, and PostgreSQL says %v", doc, err)
		} else if ours != nil && ok {
			t.Errorf("%s: refused (%v), and PostgreSQL takes it", doc, ours)
		}
	}
}

// A standby that is taken for the primary writes nothing, and its error says so.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	readOnly := false
	p := pgtest.Pool(t, func(c *pgxpool.Config) {
		c.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			_, err := conn.Exec(ctx, fmt.Sprintf("SET default_transaction_read_only = %v", readOnly))
			return true, err
		}
	})
	s := pgcheckpoint.New(p, nil)
	l := claim(t, s, "a").Lease
	readOnly = true
	_, claimed := s.Claim(t.Context(), key("b"), request())
	_, renewed := s.Renew(t.Context(), time.Hour, []checkpoint.Lease{l})
	for i, err := range []error{
		claimed, renewed, s.Append(t.Context(), l, turn(0), checkpoint.AppendOptions{}),
		s.Mark(t.Context(), l, checkpoint.Marks{Release: true}), s.Delete(t.Context(), l),
	} {
		if !errors.Is(err, checkpoint.ErrRefused) || !strings.Contains(err.Error(), "read-only standby") {
			t.Errorf("method %d: %v", i, err)
		}
	}
	readOnly = false
	if err := s.Append(t.Context(), l, turn(0), checkpoint.AppendOptions{}); err != nil {
		t.Error(err)
	}
}
