package migrations_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/pgcheckpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/pgledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/migrations"
)

// A database without the migrations of the ledger and of later stores serves everything but these. Check says so, and
// so does the ledger.
func TestBeforeEffects(t *testing.T) {
	t.Parallel()
	dsn := freshSchema(t)
	db := connect(t, postgres, dsn)
	if _, err := provider(t, postgres, db, "holdfast_schema_version").UpTo(t.Context(), 3); err != nil {
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
	up(t, postgres, db)
	if err := effects.Adopt(t.Context(), "run", f); err != nil {
		t.Errorf("Adopt after Up: %v", err)
	}
	if err := migrations.Check(t.Context(), db, migrations.Postgres); err != nil {
		t.Error(err)
	}
}
