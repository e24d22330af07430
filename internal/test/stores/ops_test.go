package stores_test

import (
	"context"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/bottest"
	"github.com/holdfast-go/holdfast/internal/test/opstest"
	"github.com/holdfast-go/holdfast/ops"
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
