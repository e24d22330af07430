// Package pgstate acts on what PostgreSQL says by SQLSTATE, and says what its commits wait for. The stores on it share this.
package pgstate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// The states that mean something to a store.
const (
	SerializationFailure = "40001"
	LockNotAvailable     = "55P03"
	QueryCanceled        = "57014" // by statement_timeout, or because its client has asked for it
	UniqueViolation      = "23505"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	undefinedSchema      = "3F000"
	undefinedFunction    = "42883"
	readOnly             = "25006"
	cannotConnectNow     = "57P03"
	noPrivilege          = "42501" // also of a row that row-level security hides or refuses
	internalError        = "XX000" // what says before PostgreSQL 14 that a value lacks a part
	dataCorrupted        = "XX001"
	indexCorrupted       = "XX002"
	insufficient         = "53" // begins the states of a server that lacks memory, space on its disk, or connections
)

// Of returns the SQLSTATE of err, or "" if the server did not say it.
func Of(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// Missing reports whether err says that a table, a column, a schema or a function does not exist. Without USAGE on a
// schema of the search path, its tables do not exist either.
func Missing(err error) bool {
	switch Of(err) {
	case undefinedTable, undefinedColumn, undefinedSchema, undefinedFunction:
		return true
	}
	return false
}

// Corrupt reports whether err says that the server cannot read what it has stored, such as a row whose value lacks a
// part. It may say so of one row among many.
func Corrupt(err error) bool {
	switch Of(err) {
	case internalError, dataCorrupted, indexCorrupted:
		return true
	}
	return false
}

// Refused reports whether err says that a statement had no effect, although there is nothing wrong with it. An error that
// ended a session is none: it may have struck a commit.
func Refused(err error) bool {
	if errors.Is(err, ErrEncoding) {
		return true
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	if connecting {
		return true // the server has answered that it takes no connection: for this role, for this database, or now
	}
	if e.SeverityUnlocalized != "ERROR" {
		return false
	}
	return e.Code == readOnly || e.Code == noPrivilege || e.Code == cannotConnectNow ||
		strings.HasPrefix(e.Code, insufficient)
}

// Remedy says what to do about an error that is Refused, if that is not plain. It ends with a colon, or is empty.
func Remedy(err error) string {
	switch Of(err) {
	case readOnly:
		return "this is a read-only standby, or transactions are read-only by default: connect to the primary, as with " +
			"target_session_attrs=read-write: "
	case noPrivilege:
		return "the role lacks a right; docs/security.md has the GRANT statements that suffice: "
	}
	return ""
}

// errCutOff says why an answer is not believed.
var errCutOff = errors.New("the answer came after ctx had ended, and may be that of a commit that no standby has")

// Ended adds why ctx ended to err, which may tell only of a broken connection.
func Ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctxcause.Of(ctx), err)
	}
	return err
}
