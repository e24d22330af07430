package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/migrations"
)

// A database without the migrations of the ledger and of later stores serves everything but these. Check says so, and
// so does the ledger.
func TestBeforeEffects(t *testing.T) {
	t.Parallel()
	dsn := freshSchema(t)
	db := connect(t, onPostgres, dsn)
	if _, err := provider(t, onPostgres, db, "holdfast_schema_version").UpTo(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	err = migrations.Check(t.Context(), db, migrations.Postgres)
	for _, missing := range []string{
		"migrations: the schema is behind: missing migration 00004_effects", "table holdfast_effects",
		"table holdfast_effect_fences",
	} {
		if !errors.Is(err, migrations.ErrBehind) || !strings.Contains(err.Error(), missing) {
			t.Errorf("Check: %v, want %s", err, missing)
		}
	}
	_, err = pgcheckpoint.New(pool, nil).Claim(t.Context(), checkpoint.Key{Orchestrator: "bot", Session: "a"},
		checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Minute})
	if err != nil {
		t.Errorf("Claim: %v", err)
	}
	effects := pgledger.New(pool, nil)
	f := lock.Fence{Epoch: 1, Nonce: "n"}
	if err := effects.Adopt(t.Context(), "run", f); !errors.Is(err, ledger.ErrSchema) {
		t.Errorf("Adopt: %v, want %v", err, ledger.ErrSchema)
	}
	up(t, onPostgres, db)
	if err := effects.Adopt(t.Context(), "run", f); err != nil {
		t.Errorf("Adopt after Up: %v", err)
	}
	if err := migrations.Check(t.Context(), db, migrations.Postgres); err != nil {
		t.Error(err)
	}
}

// effectsBefore returns a database with a table of effects as it was before the column unsure, and a ledger on it.
func effectsBefore(t *testing.T, sys system) (*sql.DB, ledger.Ledger) {
	t.Helper()
	dsn := sys.fresh(t)
	db := connect(t, sys, dsn)
	version := int64(8)
	if sys.dialect == migrations.SQLite {
		version = 7
	}
	if _, err := provider(t, sys, db, "holdfast_schema_version").UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		id       string
		state    ledger.State
		attempts int
	}{
		{"issued once", ledger.Issued, 1},
		{"issued twice", ledger.Issued, 2},
		{"unknown once", ledger.Unknown, 1},
		{"unknown twice", ledger.Unknown, 2},
		{"failed twice", ledger.Failed, 2},
		{"completed twice", ledger.Completed, 2},
	} {
		issuedAt := any(time.Now().UTC())
		if sys.dialect == migrations.SQLite {
			issuedAt = time.Now().UnixMicro()
		}
		must(t, db, `INSERT INTO holdfast_effects (id, orchestrator, session, run_id, iteration, intent, name, each, key,
				class, epoch, nonce, args_sum, issued_at, attempts, state, answered_by, error)
			VALUES ($1, 'bot', 's', 'run', 0, '', 'pay', '', '', 0, 1, 'n', '', $2, $3, $4, '', '')`,
			e.id, issuedAt, e.attempts, string(e.state))
	}
	must(t, db, `INSERT INTO holdfast_effect_fences (run_id, epoch, nonce, since)
		SELECT run_id, epoch, nonce, issued_at FROM holdfast_effects WHERE id = 'issued once'`)
	if sys.dialect == migrations.SQLite {
		return db, sqliteledger.New(db, nil)
	}
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return db, pgledger.New(pool, nil)
}

// wantUnsure checks which of the old effects are unsure, and that their ledger goes on with them.
func wantUnsure(t *testing.T, l ledger.Ledger) {
	t.Helper()
	want := map[string]bool{
		"issued once": false, "issued twice": true, "unknown once": false, "unknown twice": true, "failed twice": false,
		"completed twice": false,
	}
	got := make(map[string]bool)
	for e, err := range l.Effects(t.Context(), ledger.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[e.ID] = e.Unsure
	}
	if !maps.Equal(got, want) {
		t.Errorf("unsure are %v, want %v", got, want)
	}
	for id, want := range map[string]ledger.State{"issued once": ledger.Failed, "issued twice": ledger.Unknown} {
		attempt := 1
		if want == ledger.Unknown {
			attempt = 2
		}
		now, err := l.Finish(t.Context(), id, attempt, ledger.Outcome{State: ledger.Failed})
		if err != nil || now.State != want {
			t.Errorf("%s: %s, %v, want %s", id, now.State, err, want)
		}
	}
}

// issueNew issues an effect that is not known yet.
func issueNew(ctx context.Context, l ledger.Ledger) error {
	_, _, err := l.Issue(ctx, ledger.Effect{
		ID: "new", Orchestrator: "bot", Session: "s", RunID: "run", Name: "pay",
		Fence: lock.Fence{Epoch: 1, Nonce: "n"},
	}, false)
	return err
}

// In a table without the column unsure no effect is issued. Up adds the column. Of what is open, an effect with earlier
// attempts is unsure.
func TestBeforeUnsure(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		db, l := effectsBefore(t, sys)
		err := migrations.Check(t.Context(), db, sys.dialect)
		for _, missing := range []string{
			"_unsure", "_raises", "column holdfast_effects.unsure", "table holdfast_effect_raises",
		} {
			if !errors.Is(err, migrations.ErrBehind) || !strings.Contains(err.Error(), missing) {
				t.Errorf("Check: %v, want %s", err, missing)
			}
		}
		if err := issueNew(t.Context(), l); !errors.Is(err, ledger.ErrSchema) {
			t.Errorf("Issue: %v, want %v", err, ledger.ErrSchema)
		}
		up(t, sys, db)
		if err := migrations.Check(t.Context(), db, sys.dialect); err != nil {
			t.Error(err)
		}
		wantUnsure(t, l)
		if err := issueNew(t.Context(), l); err != nil {
			t.Errorf("Issue: %v", err)
		}
	})
}

// On PostgreSQL the Schema of the ledger brings the table up to date, once. Then Up has nothing to add.
func TestSchemaAddsUnsure(t *testing.T) {
	t.Parallel()
	db, l := effectsBefore(t, onPostgres)
	for range 2 {
		must(t, db, pgledger.New(nil, nil).Schema())
	}
	wantUnsure(t, l)
	must(t, db, "UPDATE holdfast_effects SET unsure = NOT unsure")
	before := column(t, db, "SELECT id FROM holdfast_effects WHERE unsure ORDER BY id")
	must(t, db, pgledger.New(nil, nil).Schema())
	up(t, onPostgres, db)
	wantSame(t, "unsure", column(t, db, "SELECT id FROM holdfast_effects WHERE unsure ORDER BY id"), before)
}

// If a Schema has made the table, Up leaves its effects as they are.
func TestUpLeavesUnsure(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		db, _ := effectsBefore(t, sys)
		up(t, sys, db)
		must(t, db, "DELETE FROM holdfast_schema_version WHERE version_id > 1")
		must(t, db, "UPDATE holdfast_effects SET unsure = (id = 'issued once')")
		up(t, sys, db)
		got := column(t, db, "SELECT id FROM holdfast_effects WHERE unsure")
		wantSame(t, "unsure", got, []string{"issued once"})
	})
}
