// Package valid refuses, with store.ErrInvalid, the arguments that no store takes. All contracts use it, so that each
// store gives the same verdict.
package valid

import (
	"fmt"

	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

// ID checks a name.
func ID(what, id string) error { return Err(ids.Check(what, id)) }

// Optional checks a name that may be empty.
func Optional(what, id string) error { return Err(ids.CheckOptional(what, id)) }

// Text checks a text of at most size bytes.
func Text(what, text string, size int) error { return Err(ids.CheckText(what, text, size)) }

// Fence checks the fence of an owner.
func Fence(f lock.Fence) error {
	if f.Epoch < 1 {
		return fmt.Errorf("%w: epoch %d", store.ErrInvalid, f.Epoch)
	}
	return ID("nonce", f.Nonce)
}

// Document checks a JSON value of at most size bytes. It takes nil for null.
func Document(what string, doc []byte, size int) error {
	if doc == nil {
		return nil
	}
	if err := jsonvalue.CheckWithin(doc, jsonvalue.Bounds{Size: size}); err != nil {
		return fmt.Errorf("%w: %s: %w", store.ErrInvalid, what, err)
	}
	return nil
}

// Err returns err as an ErrInvalid. It returns nil if err is nil.
func Err(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", store.ErrInvalid, err)
}
