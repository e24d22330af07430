package pgstate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		severity, code string
		want           bool
	}{
		{"ERROR", "25006", true},  // a standby
		{"ERROR", "53100", true},  // the disk is full
		{"ERROR", "53200", true},  // no memory
		{"ERROR", "42501", true},  // the role lacks a privilege
		{"PANIC", "53100", false}, // the disk is full, and the commit may be on it
		{"FATAL", "57P01", false}, // the server shuts down
		{"ERROR", "57014", false}, // cancelled
		{"ERROR", "23505", false},
	} {
		err := fmt.Errorf("wrapped: %w", &pgconn.PgError{SeverityUnlocalized: c.severity, Code: c.code})
		if got := pgstate.Refused(err); got != c.want {
			t.Errorf("%s %s is refused: %v", c.severity, c.code, got)
		}
	}
	if pgstate.Refused(nil) || pgstate.Refused(errors.New("connection reset")) {
		t.Error("what the server did not say is taken for refused")
	}
}

// A commit is known to have failed only if the server says so, goes on, and is not to blame.
func TestAborted(t *testing.T) {
	for _, c := range []struct {
		severity, code string
		want           bool
	}{
		{"ERROR", "23503", true}, // a constraint
		{"ERROR", "40P01", true}, // a deadlock
		{"ERROR", "57014", true}, // a timeout
		{"ERROR", "25P02", true}, // an error before
		{"FATAL", "57P01", false},
		{"ERROR", "53100", false},
		{"ERROR", "25006", false},
		{"ERROR", "08P01", false},
		{"ERROR", "58030", false},
		{"ERROR", "42P01", false},
	} {
		err := fmt.Errorf("wrapped: %w", &pgconn.PgError{SeverityUnlocalized: c.severity, Code: c.code})
		if got := pgstate.Aborted(err); got != c.want {
			t.Errorf("%s %s is aborted: %v", c.severity, c.code, got)
		}
	}
	if pgstate.Aborted(nil) || pgstate.Aborted(errors.New("connection reset")) || !pgstate.Aborted(pgx.ErrTxClosed) {
		t.Error("what the server did not say is taken for aborted, or an end by the owner is not")
	}
}

// A server that takes no connection was sent nothing.
func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	url := testenv.StartPostgres(t, nil).URL
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "CREATE ROLE nobody LOGIN CONNECTION LIMIT 0"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ part, instead, code string }{
		{"postgres@", "nobody@", "53300"},   // has no connection to be had
		{"postgres@", "stranger@", "28000"}, // is no role
		{"/postgres?", "/elsewhere?", "3D000"},
	} {
		_, err = pgx.Connect(t.Context(), strings.Replace(url, c.part, c.instead, 1))
		if pgstate.Of(err) != c.code || !pgstate.Refused(err) {
			t.Errorf("as %s, want %s, refused: %v", c.instead, c.code, err)
		}
	}
}

// A statement may be at work when its server goes down, in each protocol. The next one has no connection.
func TestRefusedServerDown(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgx.QueryExecMode{
		"statements": pgx.QueryExecModeCacheStatement, "exec": pgx.QueryExecModeExec, "simple": pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serverDown(t, mode)
		})
	}
}

func serverDown(t *testing.T, mode pgx.QueryExecMode) {
	server := testenv.StartPostgres(t, nil)
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT pg_sleep($1)", mode, 3600)
		asked <- err
	}()
	other, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.WithoutCancel(t.Context()))
	for atWork := false; !atWork; {
		const sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE state = 'active' AND wait_event = 'PgSleep')"
		if err := other.QueryRow(t.Context(), sql).Scan(&atWork); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()
	if err := <-asked; err == nil || pgstate.Refused(err) {
		t.Errorf("cut off: refused is not certain: %v", err)
	}
	if _, err := pgx.Connect(t.Context(), server.URL); err == nil || !pgstate.Refused(err) {
		t.Errorf("server down: %v", err)
	}
}

// An error that may be temporary is tried once more. An error that says the data is corrupt is not.
func TestAgain(t *testing.T) {
	pool, err := pgx.Connect(t.Context(), testenv.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close(t.Context())
	for code, want := range map[string]int{"": 1, "40001": 2, "XX000": 2, "XX001": 1, "23505": 1} {
		tries := 0
		err := pgstate.New(pool, pgstate.Names{}).Again(t.Context(), func() error {
			tries++
			if code == "" {
				return nil
			}
			return &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: code}
		})
		if tries != want || pgstate.Of(err) != code {
			t.Errorf("after %q a statement is tried %d times, want %d: %v", code, tries, want, err)
		}
	}
	for code, want := range map[string]bool{
		"XX000": true, "XX001": true, "XX002": true, "40001": false, "53100": false,
	} {
		if got := pgstate.Corrupt(&pgconn.PgError{Code: code}); got != want {
			t.Errorf("%s is corrupt: %v", code, got)
		}
	}
}
