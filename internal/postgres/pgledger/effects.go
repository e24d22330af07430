package pgledger

import (
	"context"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/ledger"
)

// The first effects should come soon. If there are more, their ids are read ahead. The ids are small, and the statement
// that reads them may have to look at every effect. So a list of all effects looks at all of them a few times, and not
// once for each page.
const firstPage, mostPage, briefPage, ahead = 16, 64, 2000, 20_000

// Effects implements [ledger.Ledger].
func (l *Ledger) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return func(yield func(ledger.Effect, error) bool) {
		if err := q.Validate(); err != nil {
			yield(ledger.Effect{}, err)
			return
		}
		for r, err := range l.rows(ctx, q) {
			if err == nil {
				err = ctxcause.Of(ctx)
			}
			if err != nil {
				yield(ledger.Effect{}, l.error(ctx, "effects", "", err))
				return
			}
			err = r.intact()
			if !yield(r.Effect, l.error(ctx, "effects", r.ID, err)) {
				return
			}
		}
	}
}

// rows yields what q selects. After an error it stops.
func (l *Ledger) rows(ctx context.Context, q ledger.Query) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		var after int64
		page, err := l.page(ctx, q)
		if err != nil && !pgstate.Corrupt(err) { // a corrupt page is read by its ids
			yield(row{}, err)
			return
		}
		for _, r := range page {
			if !yield(r, nil) {
				return
			}
			after = r.number
		}
		if err == nil && len(page) < firstPage {
			return
		}
		if q == (ledger.Query{Orchestrator: q.Orchestrator, Open: true, Brief: true}) {
			var done bool
			if after, done = l.openRows(ctx, q, after, yield); done {
				return
			}
		}
		for {
			keys, err := l.ahead(ctx, q, after)
			most := mostPage
			if q.Brief {
				most = briefPage
			}
			for ids := range slices.Chunk(keys, most) {
				if err != nil {
					break
				}
				page, err = l.read(ctx, q, ids)
				for _, r := range page {
					if !yield(r, nil) {
						return
					}
				}
			}
			if err != nil {
				yield(row{}, err)
			}
			if err != nil || len(keys) < ahead {
				return
			}
			after = keys[len(keys)-1].number
		}
	}
}

// openRows yields what is open after a number, without documents. The index of the open effects has them in their
// order, so that no page is looked for by its ids. If a page is corrupt, openRows is not done, and returns the number
// before it.
func (l *Ledger) openRows(
	ctx context.Context, q ledger.Query, after int64, yield func(row, error) bool,
) (last int64, done bool) {
	for {
		where, args := l.where(q, after)
		sql := fmt.Sprintf("%s%s AND number > $1::bigint ORDER BY number LIMIT %d", l.list(q), where, briefPage)
		page, err := pgstate.Collect(ctx, l.db, scan, briefPage, sql, args...)
		switch {
		case pgstate.Corrupt(err):
			return after, false
		case err != nil:
			yield(row{}, err)
			return after, true
		}
		for _, r := range page {
			if !yield(r, nil) {
				return after, true
			}
			after = r.number
		}
		if len(page) < briefPage {
			return after, true
		}
	}
}

// list begins a statement that reads what q asks for.
func (l *Ledger) list(q ledger.Query) string {
	if q.Brief {
		return l.sql.listQuick
	}
	return l.sql.list
}

// page returns the first effects.
func (l *Ledger) page(ctx context.Context, q ledger.Query) ([]row, error) {
	where, args := l.where(q)
	sql := fmt.Sprintf("%s%s ORDER BY number LIMIT %d", l.list(q), where, firstPage)
	return pgstate.Collect(ctx, l.db, scan, firstPage, sql, args...)
}

// A key tells an effect and its place in the list.
type key struct {
	id     string
	number int64
}

// ahead returns the keys of the next effects.
func (l *Ledger) ahead(ctx context.Context, q ledger.Query, after int64) ([]key, error) {
	where, args := l.where(q, after)
	sql := fmt.Sprintf("SELECT id, number FROM %s WHERE %s AND number > $1::bigint ORDER BY number LIMIT %d",
		l.db.Prefix.Table("effects"), where, ahead)
	return pgstate.Collect(ctx, l.db, func(from pgx.CollectableRow) (k key, err error) {
		err = from.Scan(&k.id, &k.number)
		return k, err
	}, 0, sql, args...)
}

// read returns the effects with these keys that q still selects. Of an effect whose documents the server cannot read,
// it returns the rest.
func (l *Ledger) read(ctx context.Context, q ledger.Query, keys []key) ([]row, error) {
	page, err := l.byID(ctx, l.list(q), q, keys)
	switch {
	case !pgstate.Corrupt(err):
		return page, err
	case len(keys) > 1:
		for i := range keys {
			one, err := l.read(ctx, q, keys[i:i+1])
			if err != nil {
				return page, err
			}
			page = append(page, one...)
		}
		return page, nil
	}
	why := err
	page, err = l.byID(ctx, l.sql.listBrief, q, keys)
	for i := range page {
		page[i].unread = why
	}
	return page, err
}

func (l *Ledger) byID(ctx context.Context, list string, q ledger.Query, keys []key) ([]row, error) {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.id
	}
	where, args := l.where(q, ids)
	return pgstate.Collect(ctx, l.db, scan, len(ids), list+where+" AND id = ANY ($1::text[]) ORDER BY number", args...)
}

// where returns the condition of q, whose arguments follow args. A field that is not set has no part in it, so that the
// planner sees which index serves.
func (l *Ledger) where(q ledger.Query, args ...any) (string, []any) {
	conditions := []string{"true"}
	for _, c := range []struct{ column, value string }{
		{"id", q.ID}, {"run_id", q.RunID}, {"session", q.Session}, {"orchestrator", q.Orchestrator},
	} {
		if c.value != "" {
			args = append(args, c.value)
			conditions = append(conditions, fmt.Sprintf("%s = $%d::text", c.column, len(args)))
		}
	}
	if q.AnsweredWithin > 0 {
		// Of a parameter the planner cannot tell that few effects were answered in the time. It would plan each call
		// anew, or read the table. So the text has a longer time too, a power of two.
		within := q.AnsweredWithin.Microseconds()
		args = append(args, within)
		conditions = append(conditions, fmt.Sprintf(`answered_at >= statement_timestamp() - %d * interval '1 microsecond'
			AND answered_at >= statement_timestamp() - $%d::bigint * interval '1 microsecond'`,
			uint64(1)<<bits.Len64(uint64(within)), len(args)))
	}
	if q.Open {
		conditions = append(conditions, open)
	}
	return strings.Join(conditions, " AND "), args
}
