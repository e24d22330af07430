package orchestrator_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A compactor notes the ranges that it is given.
type compactor struct {
	ranges []orchestrator.Range
	fail   error
}

func (c *compactor) run(_ context.Context, r orchestrator.Range) (orchestrator.Usage, error) {
	c.ranges = append(c.ranges, r)
	return orchestrator.Usage{Input: 100}, c.fail
}

func (c *compactor) spans() string {
	var all []string
	for _, r := range c.ranges {
		all = append(all, fmt.Sprint(r.From, "-", r.Through))
	}
	return strings.Join(all, " ")
}

// Compaction runs once for each range that is due, and not on every turn from then on. Its event has its usage. The
// Result has not, because a replay must equal the Result.
func TestCompaction(t *testing.T) {
	c := new(compactor)
	events := new(diary)
	bot := newWorld().start(t, echo(), Options{Compaction: orchestrator.Compaction{After: 5, Keep: 2, Run: c.run}})
	for i := range 12 {
		in := Input{Text: "x", RequestID: fmt.Sprint("r", i)}
		res, err := bot.Execute(t.Context(), "s", in, &orchestrator.CallOptions{OnEvent: events.note})
		if err != nil {
			t.Fatal(err)
		}
		if again := execute(t, bot, in); again.Usage != res.Usage {
			t.Errorf("turn %d used %v, and %v when it is replayed", i, res.Usage, again.Usage)
		}
	}
	used := 0
	for _, ev := range events.events {
		if ev.Kind == orchestrator.Compacted {
			used += ev.Usage.Input
		}
	}
	if used != 300 {
		t.Errorf("events tell of %d tokens of compaction", used)
	}
	if got := c.spans(); got != "0-2 3-5 6-8" {
		t.Errorf("ranges %s", got)
	}
	if n := strings.Count(events.kinds(), "compacted turn.settled"); n != 3 {
		t.Errorf("%d compactions heard of: %s", n, events.kinds())
	}
	if c.ranges[0].ID == c.ranges[1].ID {
		t.Error("two ranges have one ID")
	}
}

// A compaction that fails is tried again, with the same range and id until another range would be due too. It fails no
// turn.
func TestCompactionFails(t *testing.T) {
	c := &compactor{fail: errors.New("model is down")}
	var logs bytes.Buffer
	bot := newWorld().start(t, echo(), Options{
		Compaction: orchestrator.Compaction{After: 3, Keep: 1, Run: c.run},
		Logger:     slog.New(slog.NewTextHandler(&logs, nil)),
	})
	for range 5 {
		execute(t, bot, Input{Text: "x"})
	}
	c.fail = nil
	execute(t, bot, Input{Text: "x"})
	if got := c.spans(); got != "0-1 0-1 0-3 0-4" || c.ranges[0] != c.ranges[1] {
		t.Errorf("ranges %s", got)
	}
	if n := strings.Count(logs.String(), "not compacted"); n != 3 {
		t.Errorf("%d log lines:\n%s", n, &logs)
	}
}

// A Compaction that is new to a session summarizes all that it does not keep at once, whatever After and Keep are.
func TestCompactionAddedLate(t *testing.T) {
	const before, after = 100, 30
	for _, o := range []orchestrator.Compaction{
		{After: 4, Keep: 8}, {After: 8, Keep: 8}, {After: 9, Keep: 8}, {After: 12, Keep: 8}, {After: 30, Keep: 8}, {After: 1},
	} {
		w, c := newWorld(), new(compactor)
		bot := w.start(t, echo(), Options{})
		for range before {
			execute(t, bot, Input{Text: "x"})
		}
		o.Run = c.run
		bot = w.start(t, echo(), Options{Compaction: o})
		for range after {
			execute(t, bot, Input{Text: "x"})
		}
		if first := c.ranges[0]; first.From != 0 || first.Through != before-8 {
			t.Errorf("After %d: the first range is %d-%d", o.After, first.From, first.Through)
		}
		due := max(o.After-8, 1)
		for i, r := range c.ranges[1:] {
			if r.From != c.ranges[i].Through+1 || r.Through != r.From+due-1 {
				t.Errorf("After %d: ranges %s", o.After, c.spans())
			}
		}
		if left := before + after - 1 - c.ranges[len(c.ranges)-1].Through; left >= 8+due {
			t.Errorf("After %d: %d turns are left", o.After, left)
		}
	}
}

// A Due that obeys its context and says no once its time is up has not answered. The turns that follow do not wait for
// it again.
func TestCompactionDueHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, c := 0, new(compactor)
		bot := newWorld().start(t, echo(), Options{Compaction: orchestrator.Compaction{
			Keep: 1, Run: c.run, Timeout: 10 * time.Second,
			Due: func(ctx context.Context, _ orchestrator.Range) bool {
				asked++
				<-ctx.Done()
				return false
			},
		}})
		start := time.Now()
		for range 5 {
			execute(t, bot, Input{Text: "x"})
		}
		if took := time.Since(start); asked != 1 || took >= 20*time.Second {
			t.Errorf("asked %d times, in %v", asked, took)
		}
	})
}

// A crash between Run and the mark brings the same range again.
func TestCompactionCrashes(t *testing.T) {
	for name, due := range map[string]func(context.Context, orchestrator.Range) bool{
		"by turns": nil,
		"by func":  func(_ context.Context, r orchestrator.Range) bool { return r.Through-r.From >= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				c := new(compactor)
				compaction := orchestrator.Compaction{Keep: 1, Due: due, Run: c.run}
				if due == nil {
					compaction.After = 3
				}
				bot := w.start(t, echo(), Options{Compaction: compaction})
				execute(t, bot, Input{Text: "x"})
				execute(t, bot, Input{Text: "x"})
				g := &grave{world: w}
				dying := g.ends()
				crash := compaction
				crash.Run = func(ctx context.Context, r orchestrator.Range) (orchestrator.Usage, error) {
					used, err := c.run(ctx, r)
					g.die()
					return used, err
				}
				limits := orchestrator.Limits{SettleTimeout: 10 * time.Millisecond, LeaseTTL: 20 * time.Millisecond}
				execute(t, dying.start(t, echo(), Options{Compaction: crash, Limits: limits}), Input{Text: "x"})
				execute(t, bot, Input{Text: "x"})
				execute(t, bot, Input{Text: "x"})
				if got := c.spans(); !strings.HasPrefix(got, "0-1 0-1") || c.ranges[0] != c.ranges[1] ||
					len(c.ranges) > 3 {
					t.Errorf("ranges %s", got)
				}
			})
		})
	}
}

// A summarizer that hangs delays a turn by its timeout, and no turn is lost.
func TestCompactionHangs(t *testing.T) {
	w := newWorld()
	hang := func(ctx context.Context, _ orchestrator.Range) (orchestrator.Usage, error) {
		<-ctx.Done()
		return orchestrator.Usage{}, ctx.Err()
	}
	bot := w.start(t, echo(), Options{Compaction: orchestrator.Compaction{
		After: 1, Keep: 1, Run: hang,
		Timeout: time.Millisecond,
	}})
	for range 3 {
		execute(t, bot, Input{Text: "x"})
	}
	release, released := make(chan struct{}), make(chan struct{})
	ignore := func(context.Context, orchestrator.Range) (orchestrator.Usage, error) {
		<-release
		defer close(released)
		return orchestrator.Usage{}, nil
	}
	bot = w.start(t, echo(), Options{
		Compaction: orchestrator.Compaction{After: 1, Keep: 1, Run: ignore, Timeout: time.Millisecond},
		Limits:     orchestrator.Limits{SettleTimeout: 10 * time.Millisecond},
	})
	execute(t, bot, Input{Text: "x"})
	close(release)
	<-released
	if got := len(turns(t, bot)); got != 4 {
		t.Errorf("%d turns", got)
	}
}

func TestCompactByHand(t *testing.T) {
	c := new(compactor)
	bot := newWorld().start(t, echo(), Options{Compaction: orchestrator.Compaction{Keep: 2, Run: c.run}})
	for range 6 {
		execute(t, bot, Input{Text: "x"})
	}
	for range 2 {
		if err := bot.Compact(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.spans(); got != "0-3" {
		t.Errorf("ranges %s", got)
	}
	if err := newWorld().start(t, echo(), Options{}).Compact(t.Context(), "s"); err == nil {
		t.Error("compacted by nobody")
	}
	d, started := hanging()
	bot = newWorld().start(t, d, Options{
		Compaction: orchestrator.Compaction{Run: c.run},
		Limits:     orchestrator.Limits{LockWait: time.Millisecond},
	})
	ctx, cancel := context.WithCancel(t.Context())
	st := bot.Stream(ctx, "s", Input{}, nil)
	<-started
	wantErr(t, bot.Compact(t.Context(), "s"), orchestrator.ErrBusy)
	cancel()
	_, err := st.Result()
	wantErr(t, err, context.Canceled)
}

// An archive is a user's own message store, in SQL.
type archive struct {
	db *sql.DB
	ph func(n int) string // placeholder
}

func newArchive(t *testing.T, db *sql.DB, ph func(int) string) *archive {
	t.Helper()
	_, err := db.ExecContext(t.Context(),
		`CREATE TABLE messages (session text, turn integer, text text, PRIMARY KEY (session, turn))`)
	if err != nil {
		t.Fatal(err)
	}
	return &archive{db, ph}
}

// deliver stores a turn's messages. Repeated deliveries store them once.
func (a *archive) deliver(ctx context.Context, r *Result) error {
	_, err := a.db.ExecContext(ctx, fmt.Sprintf(`INSERT INTO messages VALUES (%s, %s, %s) ON CONFLICT DO NOTHING`,
		a.ph(1), a.ph(2), a.ph(3)),
		r.Session, r.Turn, r.Input.Text)
	return err
}

// summarize replaces a range by one row, in one transaction. Repeated calls replace it once.
func (a *archive) summarize(ctx context.Context, r orchestrator.Range) (orchestrator.Usage, error) {
	tx, err := a.db.BeginTx(ctx, nil)
	if err != nil {
		return orchestrator.Usage{}, err
	}
	defer tx.Rollback()
	where := fmt.Sprintf(` WHERE session = %s AND turn <= %s`, a.ph(1), a.ph(2))
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM messages`+where, r.Session,
		r.Through).Scan(&n); err != nil {
		return orchestrator.Usage{}, err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM messages`+where, r.Session, r.Through); err != nil {
		return orchestrator.Usage{}, err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`INSERT INTO messages VALUES (%s, %s, %s)`, a.ph(1), a.ph(2), a.ph(3)),
		r.Session, r.Through, "summary")
	if err != nil {
		return orchestrator.Usage{}, err
	}
	return orchestrator.Usage{Input: n}, tx.Commit()
}

func (a *archive) texts(t *testing.T) []string {
	t.Helper()
	rows, err := a.db.QueryContext(t.Context(), `SELECT text FROM messages ORDER BY turn`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// Forty turns, with the messages in the same database as the session.
func TestCompactionInSQL(t *testing.T) {
	worlds := map[string]func(t *testing.T) (checkpoint.Store, *archive){
		"sqlite": func(t *testing.T) (checkpoint.Store, *archive) {
			db, err := sql.Open("sqlite", testenv.SQLite(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			store := sqlitecheckpoint.New(db, nil)
			if _, err := db.ExecContext(t.Context(), store.Schema()); err != nil {
				t.Fatal(err)
			}
			return store, newArchive(t, db, func(n int) string { return fmt.Sprint("?", n) })
		},
		"postgres": func(t *testing.T) (checkpoint.Store, *archive) {
			pool := testenv.Postgres(t)
			db := stdlib.OpenDBFromPool(pool)
			t.Cleanup(func() { _ = db.Close() })
			return pgcheckpoint.New(pool, nil), newArchive(t, db, func(n int) string { return fmt.Sprint("$", n) })
		},
	}
	for name, open := range worlds {
		t.Run(name, func(t *testing.T) {
			store, messages := open(t)
			d := echo()
			d.Deliver = messages.deliver
			bot := world{checkpoints: store}.start(t, d,
				Options{Compaction: orchestrator.Compaction{After: 12, Run: messages.summarize}})
			most := 0
			for i := range 40 {
				execute(t, bot, Input{Text: fmt.Sprint(i)})
				most = max(most, len(messages.texts(t)))
			}
			got := messages.texts(t)
			if most > 13 || got[0] != "summary" ||
				!slices.Equal(got[len(got)-8:], []string{"32", "33", "34", "35", "36", "37", "38", "39"}) {
				t.Errorf("at most %d messages; in the end %q", most, got)
			}
		})
	}
}

// A summarizer ignores the end of its context, and is given up. The session is free at once. Another process gets the
// same range, under the same id, while the first summarizer still runs.
func TestStuckSummarizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		ranges := make(chan orchestrator.Range, 2)
		var stuck atomic.Bool
		o := Options{Compaction: orchestrator.Compaction{
			After: 3, Keep: 1, Run: func(_ context.Context, r orchestrator.Range) (orchestrator.Usage, error) {
				ranges <- r
				if stuck.CompareAndSwap(false, true) {
					<-release
				}
				return orchestrator.Usage{}, nil
			},
		}}
		w := newWorld()
		first, second := w.start(t, echo(), o), w.start(t, echo(), o)
		execute(t, first, Input{Text: "1"})
		execute(t, first, Input{Text: "2"})
		execute(t, first, Input{Text: "3"}) // its summarizer is given up
		start := time.Now()
		execute(t, second, Input{Text: "4"})
		took := time.Since(start)
		if a, b := <-ranges, <-ranges; took > time.Second || a != b {
			t.Errorf("after %v: %v, %v", took, a, b)
		}
	})
}
