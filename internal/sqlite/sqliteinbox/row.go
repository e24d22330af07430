package sqliteinbox

import (
	"database/sql"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
)

// A finding is an item, its time as it is stored, and its damage if no store wrote it.
type finding struct {
	inbox.Item
	at     int64 // µs
	damage error
}

func (f finding) place() place { return place{f.Session, f.at, f.ID} }

// scan reads an item, and judges it. The error of scan is that of the database.
func scan(rows *sql.Rows, orchestrator string, kind inbox.Kind) (f finding, err error) {
	f.Orchestrator, f.Kind = orchestrator, kind
	if err := rows.Scan(&f.Session, &f.at, &f.ID, &f.By, &f.Shown, (*[]byte)(&f.Data)); err != nil {
		f.damage = inbox.Damaged(f.Item, err)
		return f, rows.Err()
	}
	f.At = time.UnixMicro(f.at).UTC()
	f.damage = f.Intact()
	return f, rows.Err()
}
