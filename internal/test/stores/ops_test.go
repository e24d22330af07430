package stores_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/bottest"
	"github.com/holdfast-go/holdfast/internal/test/opstest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ops"
	"github.com/holdfast-go/holdfast/postgres"
)

// What a person on call sees and does is the same on each database.
func TestOps(t *testing.T) {
	for name, open := range databases(t) {
		if name != "postgres" && name != "sqlite" && name != "redis" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opstest.Run(t, func(t *testing.T) ops.Stores {
				db := open(t)
				prepare(t, db)
				return opsOf(db)
			})
		})
	}
}

// opsOf returns the stores of a database.
func opsOf(db database) ops.Stores {
	s := ops.Stores{
		Checkpoints: db.Checkpoints(), Snapshots: db.Snapshots(), Stream: db.Stream(), Inbox: db.Inbox(),
		Transcripts: db.Transcripts(), Bots: db.(interface {
			Bots(ctx context.Context) ([]string, error)
		}).Bots,
	}
	if db, ok := db.(relational); ok {
		s.Ledger, s.TurnLog = db.Ledger(), db.TurnLog()
	}
	return s
}

// Bots names each bot once, also one whose name a key of Redis has to escape.
func TestBots(t *testing.T) {
	names := []string{"a", "a/b", "b%2F{}", "zoë"}
	onEach(t, func(t *testing.T, db database) {
		prepare(t, db)
		for _, name := range names {
			d := bottest.Echo()
			d.Name = name
			bot := bottest.WorldOf(db.Checkpoints(), db.Snapshots()).Start(t, d, bottest.Options{})
			for _, session := range []string{"s-1", "s/2"} {
				if _, err := bot.Execute(t.Context(), session, bottest.Input{Text: "x"}, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, err := ops.New(opsOf(db), nil).Bots(t.Context())
		if err != nil || !slices.Equal(got, names) {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// With 1,000,000 sessions each look takes 20 ms at most on PostgreSQL.
func TestOpsAtScale(t *testing.T) {
	if os.Getenv("HOLDFAST_SOAK") != "1" {
		t.Skip("only with HOLDFAST_SOAK=1: it writes a million sessions")
	}
	pool := pgtest.EmptyPool(t)
	db := postgres.New(pool, nil)
	prepare(t, db)
	s := opsOf(db)
	w := bottest.WorldOf(s.Checkpoints, s.Snapshots)
	w.Park(t, w.Start(t, bottest.Steps(nil), bottest.Once1))
	pgtest.Exec(t, pool, `
		INSERT INTO holdfast_sessions (orchestrator, session, epoch, nonce, owner, lease_until, born, turn)
		SELECT 'bot', lpad(i::text, 8, '0'), 1, '', '', now(), 1, 0 FROM generate_series(1, 1000000) i`)
	pgtest.Exec(t, pool, "VACUUM (ANALYZE) holdfast_sessions")
	room := ops.New(s, &ops.Options{Logger: bottest.Quiet()})
	bot, err := room.Bot("bot")
	if err != nil {
		t.Fatal(err)
	}
	for what, look := range map[string]func() error{
		"bots": func() error { _, err := room.Bots(t.Context()); return err },
		"find": func() error { _, err := room.Find(t.Context(), "s"); return err },
		"runs": func() error {
			for _, err := range room.Runs(t.Context(), ops.RunQuery{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"a page of sessions": func() error {
			for _, err := range bot.Sessions(t.Context(), checkpoint.SessionQuery{After: "00500000", Limit: 50}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"effects": func() error {
			for _, err := range room.Effects(t.Context(), ledger.Query{Open: true}) {
				return err
			}
			return nil
		},
	} {
		best := time.Hour
		for range 20 {
			start := time.Now()
			if err := look(); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		if t.Logf("%s: %v", what, best); best > 20*time.Millisecond {
			t.Errorf("%s takes %v", what, best)
		}
	}
}
