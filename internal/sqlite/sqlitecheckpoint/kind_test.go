package sqlitecheckpoint_test

import (
	"errors"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
)

var kind = sqlitetest.Kind[*sqlitecheckpoint.Store]{
	Damaged: checkpoint.ErrDamaged,
	OneDamaged: func(err error) bool {
		_, one := errors.AsType[*checkpoint.DamagedError](err)
		return one
	},
}
