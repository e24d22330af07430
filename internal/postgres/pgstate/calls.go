package pgstate

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Calls makes calls of one function in one round trip. It returns for each call whether the function returned true. On
// PostgreSQL the calls are one transaction. On Citus each call is a transaction of its own, so each must stand alone.
func (d *DB) Calls(ctx context.Context, sql string, calls [][]any) (returned []bool, err error) {
	if len(calls) == 0 {
		return nil, nil
	}
	var b pgx.Batch
	returned = make([]bool, len(calls))
	for i, args := range calls {
		b.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&returned[i]) })
	}
	return returned, d.SendBatch(ctx, &b).Close()
}

const callPage = 1000

// CallAll calls a function with the two columns of each row that list returns. It returns how often the function
// returned true. list is a statement that returns the next $3 rows after ($1, $2) in their order.
func (d *DB) CallAll(ctx context.Context, list, call string) (did int, err error) {
	var orchestrator, session string
	for {
		var page [][]any
		err := d.Answered(ctx, func() error {
			page = nil
			rows, err := d.Query(ctx, list, orchestrator, session, callPage)
			if err != nil {
				return err
			}
			var o, s string
			_, err = pgx.ForEachRow(rows, []any{&o, &s}, func() error {
				page = append(page, []any{o, s})
				return nil
			})
			return err
		})
		if err != nil || len(page) == 0 {
			return did, err
		}
		orchestrator, session = page[len(page)-1][0].(string), page[len(page)-1][1].(string)
		var returned []bool
		err = d.Answered(ctx, func() error {
			returned, err = d.Calls(ctx, call, page)
			return err
		})
		if err != nil {
			return did, err
		}
		for _, r := range returned {
			if r {
				did++
			}
		}
	}
}
