package sqliteinbox_test

import (
	"testing"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteinbox"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestStore(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, func(t *testing.T) inbox.Store { return newStore(t, nil) })
}

// The suite passes on one connection, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, func(t *testing.T) inbox.Store {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return create(t, db, &sqliteinbox.Options{Prefix: "_My1"})
	})
}

// Random histories of one caller follow the model, and those of several callers are linearizable.
func TestModel(t *testing.T) {
	t.Parallel()
	newStore := func(t *testing.T) inbox.Store { return newStore(t, nil) }
	faulttest.InboxModel(t, newStore)
	faulttest.InboxHistories(t, newStore, faulttest.Histories())
}
