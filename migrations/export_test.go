package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/migrations/internal/ddl"
)

// UpTexts is like Up, with migrations 1, 2 and so on.
func UpTexts(ctx context.Context, db *sql.DB, d Dialect, texts ...string) error {
	var all []migration
	for i, text := range texts {
		all = append(all, migration{int64(i + 1), fmt.Sprintf("%05d_test", i+1), text})
	}
	p, err := Tables{Dialect: d}.place()
	if err != nil {
		return err
	}
	return p.up(ctx, db, all)
}

// Drops returns the statements by which the Down of FromSchema drops what the schemas create.
func Drops(stores ...Schemer) (drops []string) {
	for _, s := range slices.Backward(stores) {
		drops = append(drops, ddl.Drop(s.Schema())...)
	}
	return drops
}
