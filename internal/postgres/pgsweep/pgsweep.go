// Package pgsweep removes the rows of sessions that are over. It needs no index that every settle would have to keep.
//
// A sweep walks the primary key in slices, and remembers in a table of one row how far it has come. If a limited sweep
// finds nothing, it stops after a few thousand rows. So it costs the same however much the table holds. The next sweep
// continues there. Of several processes one sweeps. The others leave the sweep to this process until it has been silent
// for some minutes.
package pgsweep

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/apart"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

const (
	slice = 1000 // rows that one statement reads
	// least is the smallest slice, for a short statement_timeout.
	least = 1
	// mostSeen is how many rows a limited sweep looks at in vain.
	mostSeen = 2000

	// turn is for how long one process sweeps alone. Watch sweeps once a minute.
	turn = 3 * time.Minute
)

// Schema creates the table that remembers where the sweep is. Table stands for the name of that table.
const (
	Table  = "{sweep}"
	Schema = `
CREATE TABLE IF NOT EXISTS {sweep} (
    one          boolean     NOT NULL PRIMARY KEY,
    process      text        NOT NULL,
    until        timestamptz NOT NULL,
    orchestrator text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL
);
`
)

const (
	// A sweep need not be durable: if a crash undoes it, the next sweep repeats it.
	take = `
		INSERT INTO {sweep} AS s (one, process, until, orchestrator, session)
		VALUES (true, $1, clock_timestamp() + $2::bigint * interval '1 microsecond', '', '')
		ON CONFLICT (one) DO UPDATE SET process = excluded.process, until = excluded.until
		WHERE s.process = excluded.process OR s.until <= clock_timestamp()
		RETURNING orchestrator, session, ` + pgstate.Lazy

	leave = `
		WITH s AS (UPDATE {sweep} SET orchestrator = $2, session = $3 WHERE process = $1)
		SELECT ` + pgstate.Lazy
)

// A Sweeper sweeps one table.
type Sweeper struct {
	db *pgstate.DB
	// If slice itself removes sessions, remove is empty.
	take, slice, remove, leave string
	process                    string
}

// New returns a Sweeper. slice is a statement that looks at the next $5 sessions after ($3, $4). It removes at most $2
// of the sessions that have been over for $1 microseconds. It returns how many sessions it has removed, how many it has
// looked at, and the last of them. names replaces Table and the names in slice.
func New(db *pgstate.DB, slice string, names *strings.Replacer) *Sweeper {
	return NewByCalls(db, slice, "", names)
}

// NewByCalls returns a Sweeper that removes sessions one by one. slice is a statement that returns the next $4 sessions
// after ($2, $3), and of each whether it has been over for $1 microseconds. remove is a call that removes the session
// ($1, $2) if the session has been over for $3 microseconds. It returns whether it has removed the session.
func NewByCalls(db *pgstate.DB, slice, remove string, names *strings.Replacer) *Sweeper {
	return &Sweeper{
		db, names.Replace(take), names.Replace(slice), names.Replace(remove), names.Replace(leave), rand.Text(),
	}
}

type place struct{ orchestrator, session string }

// seen is the result of one slice.
type seen struct {
	removed, rows int
	last          place
}

// Sweep removes sessions that have been over for idle, at most limit of them. Without a limit it looks at all sessions.
func (s *Sweeper) Sweep(ctx context.Context, idle time.Duration, limit int) (removed int, err error) {
	w := walk{Sweeper: s, idle: idle, limit: limit, size: slice}
	if limit > 0 {
		w.at, err = s.turn(ctx)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, nil // another process sweeps
		}
		if err != nil {
			return 0, err
		}
	}
	start := w.at
	for !w.over && err == nil {
		err = w.step(ctx)
	}
	if err == nil && limit > 0 && w.at != start {
		_, err = one(ctx, s.db, func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil },
			s.leave, s.process, w.at.orchestrator, w.at.session)
	}
	return w.removed, cmp.Or(err, w.left)
}

// turn makes this process the sweeping one, and returns where the sweep continues. If it is another process's turn,
// turn returns pgx.ErrNoRows.
func (s *Sweeper) turn(ctx context.Context) (place, error) {
	scan := func(row pgx.CollectableRow) (at place, err error) {
		err = row.Scan(&at.orchestrator, &at.session, nil)
		return at, err
	}
	return one(ctx, s.db, scan, s.take, s.process, turn.Microseconds())
}

// A walk is one sweep on its way through the table.
type walk struct {
	*Sweeper
	idle  time.Duration
	limit int
	at    place
	size  int // of a slice
	// removed counts rows. vain counts the rows since the last removed row.
	removed, vain int
	wrapped, over bool

	// left is why a session was left that is over; nil if none was.
	left error
}

// step takes one slice.
func (w *walk) step(ctx context.Context) error {
	most := w.size
	if w.limit > 0 {
		most = min(most, w.limit-w.removed)
	}
	got, err := w.look(ctx, most)
	if pgstate.Of(err) == pgstate.QueryCanceled && ctx.Err() == nil && w.size > least {
		w.size = max(least, w.size/8)
		return nil
	}
	if err != nil {
		return err
	}
	w.removed += got.removed
	if w.limit > 0 && w.removed == w.limit {
		w.over = true // this slice may have more
		return nil
	}
	if w.vain += got.rows; got.removed > 0 {
		w.vain = 0
	}
	if w.at = got.last; got.rows < w.size {
		w.over = w.wrapped || w.limit == 0
		w.at, w.wrapped = place{}, true
	}
	w.over = w.over || w.limit > 0 && w.vain >= mostSeen
	return nil
}

// look looks at the next slice, and removes at most the number most of its sessions.
func (w *walk) look(ctx context.Context, most int) (seen, error) {
	if w.remove != "" {
		return w.call(ctx, most)
	}
	return one(ctx, w.db, scan, w.slice, w.idle.Microseconds(), most, w.at.orchestrator, w.at.session, w.size)
}

// call is look for sessions that are removed one by one.
func (w *walk) call(ctx context.Context, most int) (got seen, err error) {
	var over [][]any
	err = w.db.Again(ctx, func() error {
		got, over = seen{}, nil
		rows, err := w.db.Query(ctx, w.slice, w.idle.Microseconds(), w.at.orchestrator, w.at.session, w.size)
		if err != nil {
			return err
		}
		var is bool
		_, err = pgx.ForEachRow(rows, []any{&got.last.orchestrator, &got.last.session, &is}, func() error {
			if got.rows++; is && len(over) < most {
				over = append(over, []any{got.last.orchestrator, got.last.session, w.idle.Microseconds()})
			}
			return nil
		})
		return err
	})
	if err != nil {
		return got, err
	}
	left, err := apart.Do(over, func(some [][]any) error {
		var removed []bool
		err := w.db.Again(ctx, func() (err error) {
			removed, err = w.db.Calls(ctx, w.remove, some)
			return err
		})
		for _, r := range removed {
			if r && err == nil {
				got.removed++
			}
		}
		return err
	}, divides)
	if len(left) > 0 && divides(err, len(left)) > 1 {
		w.left, err = cmp.Or(w.left, err), nil
	}
	return got, err
}

// divides returns into how many pieces the sessions are divided that could not be removed together: one of them may be
// on a worker that is down. An error without a state is of the connection.
func divides(err error, _ int) int {
	if state := pgstate.Of(err); state == "" || state == pgstate.QueryCanceled || pgstate.Refused(err) {
		return 1
	}
	return 2
}

func scan(row pgx.CollectableRow) (got seen, err error) {
	var orchestrator, session *string
	if err = row.Scan(&got.removed, &got.rows, &orchestrator, &session); err == nil && orchestrator != nil {
		got.last = place{*orchestrator, *session}
	}
	return got, err
}

func one[T any](ctx context.Context, db *pgstate.DB, scan pgx.RowToFunc[T], sql string, args ...any) (t T, err error) {
	err = db.Again(ctx, func() error {
		t, err = pgstate.Row(ctx, db, scan, sql, args...)
		return err
	})
	return t, err
}
