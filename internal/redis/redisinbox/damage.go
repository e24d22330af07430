package redisinbox

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// judge turns a fault that a script found into a *inbox.DamagedError. If all items of the kind are concerned, the id is
// "".
func judge(it inbox.Item, err error) error {
	if fault, ok := errors.AsType[*redisstore.Fault](err); ok {
		return inbox.Damaged(it, fault)
	}
	return err
}

// indexError turns a fault of an index, in a value that no script wrote, into an ErrDamaged of the whole store.
func indexError(err error) error {
	if fault, ok := errors.AsType[*redisstore.Fault](err); ok {
		return fmt.Errorf("%w: index: %s", inbox.ErrDamaged, fault.What)
	}
	return err
}
