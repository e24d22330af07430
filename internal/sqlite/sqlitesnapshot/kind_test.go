package sqlitesnapshot_test

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/snapshot"
)

var kind = sqlitetest.Kind[*sqlitesnapshot.Store]{
	Damaged: snapshot.ErrDamaged,
	OneDamaged: func(err error) bool {
		_, one := errors.AsType[*snapshot.DamagedError](err)
		return one
	},
}
