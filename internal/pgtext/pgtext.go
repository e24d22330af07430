// Package pgtext says in which databases of PostgreSQL a store can keep every text. It imports no driver, so that a
// program on another database does not link one.
package pgtext

import (
	"errors"
	"fmt"
)

// ErrEncoding refuses a database whose encoding is not UTF8. The message says what to do.
var ErrEncoding = errors.New("the encoding of the database is not UTF8")

// Encoded returns an ErrEncoding unless a store can keep every text in a database of this encoding.
func Encoded(encoding string) error {
	if encoding == "UTF8" {
		return nil
	}
	return fmt.Errorf("%w but %s, which cannot store every text: use a database that was created with "+
		"ENCODING 'UTF8' TEMPLATE template0", ErrEncoding, encoding)
}
