package sqliteledger_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"testing"

	"modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
)

// A tampering stands between database/sql and SQLite. It counts what is executed, and replaces parts of statements.
type tampering struct {
	driver.Driver
	dsn     string
	replace *strings.Replacer

	mu       sync.Mutex // protects following fields
	executed []string
	texts    []string // in full
}

func (s *tampering) Connect(context.Context) (driver.Conn, error) {
	c, err := s.Open(s.dsn)
	if err != nil {
		return nil, err
	}
	return tamperedConn{c.(sqliteConn), s}, nil
}

// tamper returns a database on a file, through a tampering that replaces pairs of texts.
func tamper(tb testing.TB, dsn string, pairs ...string) (*tampering, *sql.DB) {
	tb.Helper()
	s := &tampering{Driver: new(sqlite.Driver), dsn: dsn, replace: strings.NewReplacer(pairs...)}
	db := sql.OpenDB(connector{s})
	tb.Cleanup(func() { db.Close() })
	return s, db
}

type connector struct{ *tampering }

func (c connector) Driver() driver.Driver { return c.tampering.Driver }

// note counts a statement by its first word.
func (s *tampering) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executed, s.texts = append(s.executed, strings.Fields(text)[0]), append(s.texts, text)
}

// taken returns what was executed since the last call.
func (s *tampering) taken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.executed, " ")
	s.executed, s.texts = nil, nil
	return all
}

type sqliteConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type tamperedConn struct {
	sqliteConn
	s *tampering
}

func (c tamperedConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	stmt, err := c.sqliteConn.PrepareContext(ctx, c.s.replace.Replace(text))
	if err != nil {
		return nil, err
	}
	return tamperedStmt{stmt.(sqliteStmt), c.s, text}, nil
}

func (c tamperedConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	c.s.note("BEGIN")
	tx, err := c.sqliteConn.BeginTx(ctx, o)
	return tamperedTx{tx, c.s}, err
}

func (c tamperedConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	c.s.note(text)
	return c.sqliteConn.ExecContext(ctx, c.s.replace.Replace(text), args)
}

func (c tamperedConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	c.s.note(text)
	return c.sqliteConn.QueryContext(ctx, c.s.replace.Replace(text), args)
}

type tamperedTx struct {
	driver.Tx
	s *tampering
}

func (tx tamperedTx) Commit() error {
	tx.s.note("COMMIT")
	return tx.Tx.Commit()
}

type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type tamperedStmt struct {
	sqliteStmt
	s    *tampering
	text string
}

func (t tamperedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	t.s.note(t.text)
	return t.sqliteStmt.ExecContext(ctx, args)
}

func (t tamperedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	t.s.note(t.text)
	return t.sqliteStmt.QueryContext(ctx, args)
}

// If a statement of the ledger loses what it rests on, the suite notices.
func TestConvicts(t *testing.T) {
	const (
		fenceOfRun = "WHERE run_id = ?4 AND epoch = ?11 AND nonce = ?12"
		undone     = "THEN state = 'issued' OR state = 'unknown' OR state = 'failed' OR state = 'skipped'"
		lastOpen   = "ELSE attempts = ?2 AND (state = 'unknown' OR state = 'issued')"
	)
	for name, c := range map[string]struct {
		clause string
		pairs  []string
	}{
		"an insert by a run that is known": {"issue-fenced", []string{fenceOfRun, "WHERE run_id = ?4"}},
		"an insert that compares the epoch": {
			"issue-fenced",
			[]string{fenceOfRun, "WHERE run_id = ?4 AND epoch = ?11"},
		},
		"Adopt leaves what is Issued": {
			"adopt-unknown",
			[]string{"state = 'issued' AND (epoch <> ?2", "state = 'none' AND (epoch <> ?2"},
		},
		"Adopt takes its own": {
			"issue-of-another-run",
			[]string{"WHERE run_id = ?1 AND state = 'issued'", "WHERE state = 'issued'"},
		},
		"Adopt of any fence": {"adopt-fenced", []string{"WHERE old.epoch < excluded.epoch", "WHERE true"}},
		"Adopt of an equal epoch": {
			"adopt-fenced",
			[]string{"WHERE old.epoch < excluded.epoch", "WHERE old.epoch <= excluded.epoch"},
		},
		"the second result wins": {"finish-first-result", []string{undone, "THEN true"}},
		"a result of the last attempt only": {
			"finish-late-result",
			[]string{undone, "THEN state <> 'completed' AND attempts = ?2"},
		},
		"a failure of any attempt": {
			"finish-late-failure",
			[]string{lastOpen, "ELSE state = 'unknown' OR state = 'issued'"},
		},
		"a failure over what is closed": {
			"finish-closed",
			[]string{lastOpen, "ELSE attempts = ?2 AND state <> 'completed'"},
		},
		"an answer for what is Issued": {"answer-issued", []string{"state = 'issued' AND ?8", "state = 'issued'"}},
		"an answer for an earlier attempt": {
			"answer-earlier-attempt",
			[]string{"THEN attempts = ?2 AND (state", "THEN (state"},
		},
		"an answer that is lost by a result": {
			"answer-late-result",
			[]string{"THEN answered_by ELSE", "THEN '' ELSE"},
		},
		"an answer that is kept when issued": {
			"answer-issued-anew",
			[]string{"answered_at = NULL,", "", "answered_by = '',", ""},
		},
		"the error is kept when issued": {"issue-failed", []string{"coalesce(max(r.why), '')", "coalesce(max(r.why), e.error)"}},
		"another run stays the owner":   {"issue-of-another-run", []string{"run_id = ?3,", ""}},
		"a failure is the last word":    {"unsure-failed", []string{"AND ?7 = '' AND unsure", "AND ?7 <> '' AND unsure"}},
		"a failure never ends":          {"unsure-failed-only", []string{"AND ?7 = '' AND unsure", "AND ?7 = '' AND attempts > 1"}},
		"an answer about one attempt":   {"unsure-answer", []string{"AND ?7 = '' AND unsure", "AND unsure"}},
		"an attempt that is kept sure":  {"unsure-issue", []string{"unsure = state <> 'failed' AND NOT ?12", "redacted = redacted AND ?12 < 2"}},
		"an attempt of what was Issued": {"unsure-failed", []string{"unsure = state <> 'failed'", "unsure = state = 'unknown'"}},
		"an attempt after a failure":    {"unsure-failed-only", []string{"unsure = state <> 'failed' AND", "unsure ="}},
		"a caller that is not heard":    {"unsure-told", []string{"AND NOT ?12", "AND ?12 < 2"}},
		"Record keeps the error":        {"record-over-failed", []string{"error = '', result = ?3", "result = ?3"}},
		"Prune takes keys":              {"prune-keeps", []string{"key = '' AND (state", "(state"}},
		"Prune takes what is open": {
			"prune-keeps",
			[]string{"AND (state = 'completed' OR state = 'failed' OR state = 'skipped')", "AND state <> 'issued'"},
		},
		"Prune takes fences of runs in use": {
			"prune-fences",
			[]string{
				"AND NOT EXISTS (SELECT 1 FROM holdfast_effects e",
				"AND 1 OR EXISTS (SELECT 1 FROM holdfast_effects e",
			},
		},
		"a list without the order of the issue": {"effects", []string{"ORDER BY number", "ORDER BY id"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, db := tamper(t, testenv.SQLite(t), c.pairs...)
			plain := sqlitetest.Open(t, testenv.SQLite(t))
			convicted := func(db *sql.DB) bool {
				open := func() ledger.Ledger { return create(t, db, nil) }
				found := ledgertest.Violations(t.Context(), open, c.clause)
				return found[c.clause] != nil
			}
			if convicted(plain) || !convicted(db) {
				t.Errorf("clause %s does not tell it from the ledger", c.clause)
			}
		})
	}
}

// A new effect is one statement, and its outcome another. Each commits by itself.
func TestStatements(t *testing.T) {
	s, db := tamper(t, testenv.SQLite(t))
	l := create(t, db, nil)
	want(t, l.Adopt(t.Context(), "run", fence(1)), nil)
	old, _, err := l.Issue(t.Context(), effect("run", "old"), false)
	want(t, err, nil)
	high := fence(2)
	issueA := func() error {
		_, _, err := l.Issue(t.Context(), effect("run", "a"), false)
		return err
	}
	for _, c := range []struct {
		name, want string
		call       func() error
	}{
		{"Issue", "INSERT", issueA},
		{"Issue once more", "INSERT SELECT", issueA},
		{"Finish", "UPDATE", func() error { _, err := l.Finish(t.Context(), "a", 1, paid); return err }},
		{"Finish once more", "UPDATE SELECT", func() error { _, err := l.Finish(t.Context(), "a", 1, paid); return err }},
		{"Issue of what is known", "INSERT SELECT", issueA},
		{"Record", "INSERT", func() error {
			e := effect("run", "b")
			e.Class, e.Result = ledger.Pure, paid.Result
			_, err := l.Record(t.Context(), e)
			return err
		}},
		{"Issue anew", "INSERT SELECT BEGIN INSERT SELECT SELECT UPDATE COMMIT", func() error {
			again := effect("run", "old")
			again.Attempts = old.Attempts
			_, _, err := l.Issue(t.Context(), again, true)
			return err
		}},
		{"Adopt", "BEGIN INSERT UPDATE COMMIT", func() error { return l.Adopt(t.Context(), "run", high) }},
		{"Adopt once more", "BEGIN INSERT SELECT COMMIT", func() error { return l.Adopt(t.Context(), "run", high) }},
		{"first Issue of a run", "INSERT SELECT BEGIN INSERT UPDATE SELECT INSERT COMMIT", func() error {
			_, _, err := l.Issue(t.Context(), effect("other", "c"), false)
			return err
		}},
	} {
		s.taken()
		if err := c.call(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := s.taken(); got != c.want {
			t.Errorf("%s executes %s, want %s", c.name, got, c.want)
		}
	}
	if e := kept(t, l, "old"); e.Attempts != old.Attempts+1 || e.State != ledger.Unknown {
		t.Errorf("kept: %+v", e)
	}
	e := effect("tx", "tx")
	sqlitetest.Exec(t, db, "CREATE TABLE bookings (id TEXT)")
	s.taken()
	tx, err := db.BeginTx(t.Context(), nil)
	want(t, err, nil)
	_, err = sqliteledger.Tx(t.Context(), l, tx, e, book(tx, e.ID))
	want(t, errors.Join(err, tx.Commit()), nil)
	if got, want := s.taken(), "BEGIN INSERT UPDATE SELECT SELECT INSERT INSERT UPDATE COMMIT"; got != want {
		t.Errorf("Tx executes %s, want %s", got, want)
	}
}

// Each query reads by the index that serves it, in few pages. So the cost of what is open, and of a run, does not grow
// with what is finished.
func TestLists(t *testing.T) {
	s, db := tamper(t, testenv.SQLite(t))
	l := create(t, db, nil)
	fill(t, db, 300)
	open := issue(t, l, effect("run", "open"))
	for _, c := range []struct {
		q       ledger.Query
		by      string
		effects int
		pages   int // of 16, then 64, or 1000 if they are brief
	}{
		{ledger.Query{}, "NOT INDEXED", 301, 6},
		{ledger.Query{Brief: true}, "NOT INDEXED", 301, 2},
		{ledger.Query{Open: true}, "INDEXED BY holdfast_effects_open", 1, 1},
		{ledger.Query{Open: true, Session: open.Session}, "INDEXED BY holdfast_effects_open", 1, 1},
		{ledger.Query{RunID: "r3", Open: true}, "INDEXED BY holdfast_effects_run", 0, 1},
		{ledger.Query{RunID: "r3"}, "INDEXED BY holdfast_effects_run", 10, 1},
		{ledger.Query{Session: "s1"}, "INDEXED BY holdfast_effects_session", 100, 3},
		{ledger.Query{Session: "s1", Brief: true}, "INDEXED BY holdfast_effects_session", 100, 2},
		{ledger.Query{ID: "open"}, "WHERE id = ?5", 1, 1},
	} {
		s.taken()
		ids, _ := list(t, l, c.q)
		if len(ids) != c.effects || len(s.texts) != c.pages {
			t.Errorf("%+v: %d effects in %d pages, want %d in %d", c.q, len(ids), len(s.texts), c.effects, c.pages)
		}
		for _, text := range s.texts {
			if !strings.Contains(text, c.by) || strings.Contains(text, "args, result") == c.q.Brief {
				t.Errorf("%+v reads by %s", c.q, text)
			}
		}
	}
}

// If the statement of an attempt fails in the transaction that has adopted the run, the caller is told so.
func TestIssueAnewFails(t *testing.T) {
	_, db := tamper(t, testenv.SQLite(t), "attempts = attempts + 1", "attempts = -attempts")
	l := create(t, db, nil)
	e := finish(t, l, issue(t, l, effect("run", "a")), ledger.Outcome{State: ledger.Failed})
	now, issued, err := l.Issue(t.Context(), e, true)
	if err == nil || issued {
		t.Errorf("Issue returns %+v, %t, %v", now, issued, err)
	}
}
