package pgledger

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// Broken returns a ledger with another text in place of a part of the named statement, which must have that part. Both
// have the placeholders of the real statements. An empty part is the whole statement.
func (l *Ledger) Broken(statement, part, instead string) *Ledger {
	broken := *l
	s := map[string]*string{
		"adopt": &broken.sql.adopt, "unknown": &broken.sql.unknown, "issue": &broken.sql.issue,
		"issueKnown": &broken.sql.issueKnown, "recordKnown": &broken.sql.recordKnown, "finish": &broken.sql.finish,
		"prune": &broken.sql.prune, "idle": &broken.sql.idle, "forget": &broken.sql.forget,
		"raise": &broken.sql.raise,
	}[statement]
	switch {
	case s == nil:
		panic("no statement " + statement)
	case part == "":
		*s = l.Fill(instead)
	case !strings.Contains(*s, l.Fill(part)):
		panic("no such part of " + statement + ": " + part)
	default:
		*s = strings.ReplaceAll(*s, l.Fill(part), l.Fill(instead))
	}
	return &broken
}

// Fill replaces the placeholders by the names of the ledger's tables.
func (l *Ledger) Fill(sql string) string {
	return fill(l.prefix, strings.ReplaceAll(sql, "{unconcerned}", unconcerned))
}

// IssueIn issues e in a transaction.
func (l *Ledger) IssueIn(ctx context.Context, tx pgx.Tx, e ledger.Effect) (ledger.Effect, error) {
	return l.issueIn(ctx, tx, e)
}

// AdoptIn adopts a run in a transaction.
func (l *Ledger) AdoptIn(ctx context.Context, tx pgx.Tx, runID string, f lock.Fence) error {
	return l.adoptIn(ctx, tx, runID, f)
}
