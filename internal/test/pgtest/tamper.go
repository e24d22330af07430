package pgtest

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/suite"
)

// A DB runs the statements of a store: a pool, or what stands in front of one.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// tampered stands in front of a pool, and replaces parts of statements.
type tampered struct {
	pool    *pgxpool.Pool
	replace *strings.Replacer
}

var _ DB = tampered{}

// Tamper returns a database that replaces parts of the statements to p: each first text of pairs by the second.
func Tamper(p *pgxpool.Pool, pairs ...string) DB { return tampered{p, strings.NewReplacer(pairs...)} }

func (d tampered) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return d.pool.Exec(ctx, d.replace.Replace(sql), args...)
}

func (d tampered) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return d.pool.Query(ctx, d.replace.Replace(sql), args...)
}

func (d tampered) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		q.SQL = d.replace.Replace(q.SQL)
	}
	return d.pool.SendBatch(ctx, b)
}

// TestConvicts shows that the suite convicts stores with a statement that looks right, and breaks the contract. Each
// has the clause that it breaks, and pairs for Tamper.
func (k Kind[S]) TestConvicts(t *testing.T, cases map[string][]string) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := suite.Trial[S]{Violations: k.Violations, Tries: 6}
			trial.Convict(t, c[0], func() S {
				p := EmptyPool(t)
				return k.create(t, p, k.New(Tamper(p, c[1:]...), ""))
			})
		})
	}
}
