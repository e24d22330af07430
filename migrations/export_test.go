package migrations

import (
	"context"
	"database/sql"
	"fmt"
)

// UpTexts is like Up, with migrations 1, 2 and so on.
func UpTexts(ctx context.Context, db *sql.DB, d Dialect, texts ...string) error {
	var all []migration
	for i, text := range texts {
		all = append(all, migration{int64(i + 1), fmt.Sprintf("%05d_test", i+1), text})
	}
	return upAll(ctx, db, d, all)
}
