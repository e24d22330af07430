package sqlitecheckpoint_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

func TestBeat(t *testing.T) {
	locktest.RunBeater(t, func(t *testing.T) lock.Beater { return newStore(t, nil) })
}

// If the statement of a beat fails, the beat fails and changes nothing. Without the table it names ErrSchema.
func TestBeatFails(t *testing.T) {
	t.Parallel()
	for event, c := range map[string]struct {
		process string
		rest    bool
	}{
		"UPDATE": {"alive", false}, "INSERT": {"new", false}, "DELETE": {"alive", true},
	} {
		t.Run(event, func(t *testing.T) {
			db := sqlitetest.Open(t, testenv.SQLite(t))
			s := create(t, db, nil)
			call := func(ctx context.Context) error {
				if c.rest {
					return s.Rest(ctx, c.process)
				}
				_, err := s.Beat(ctx, c.process)
				return err
			}
			_, err := s.Beat(t.Context(), "alive")
			want(t, err, nil)
			sqlitetest.Exec(t, db, "INSERT INTO holdfast_beats VALUES ('dead', 1, 1)")
			sqlitetest.Exec(t, db, "ALTER TABLE holdfast_beats RENAME TO elsewhere")
			want(t, call(t.Context()), checkpoint.ErrSchema)
			_, err = s.Beat(t.Context(), "")
			want(t, err, checkpoint.ErrSchema)
			sqlitetest.Exec(t, db, "ALTER TABLE elsewhere RENAME TO holdfast_beats")
			sqlitetest.FailsWhole(t, db, event+" ON holdfast_beats", call, "holdfast_beats")
		})
	}
}

// A process that begins removes the processes that have been silent for long, and no others.
func TestSilent(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, nil)
	beat := func(process, want string) {
		t.Helper()
		beats, err := s.Beat(t.Context(), process)
		names := make([]string, 0, len(beats))
		for _, name := range []string{"dead", "quiet", "a", "b"} {
			if _, ok := beats[name]; ok {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != want || err != nil {
			t.Errorf("got %q and %v, want %q", got, err, want)
		}
	}
	beat("a", "a")
	for name, silent := range map[string]time.Duration{
		"dead": lock.Silence + time.Minute, "quiet": lock.Silence - time.Minute,
	} {
		at := time.Now().Add(-silent).UnixMicro()
		sqlitetest.Exec(t, db, fmt.Sprintf("INSERT INTO holdfast_beats VALUES ('%s', 1, %d)", name, at))
	}
	beat("a", "dead quiet a")
	sqlitetest.Fail(t, db, "DELETE ON holdfast_beats")
	if _, err := s.Beat(t.Context(), "c"); err == nil {
		t.Error("a Beat says nothing of a DELETE that fails")
	}
	sqlitetest.Mend(t, db)
	beat("b", "quiet a b")
}
