// Package pgstate is what the stores on PostgreSQL share: how a statement is sent and its rows are read, what the
// SQLSTATEs mean, what a commit waits for, and how a schema is written.
package pgstate

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/internal/pgtext"
)

// These are the states that mean something to a store.
const (
	SerializationFailure = "40001"
	LockNotAvailable     = "55P03"
	// QueryCanceled comes from statement_timeout, or because the client has asked for it.
	QueryCanceled   = "57014"
	UniqueViolation = "23505"

	// These are how a statement refuses what it finds, and the transaction with it.
	DivisionByZero  = "22012"
	LogarithmOfZero = "2201E"
	NegativeRoot    = "2201F"

	undefinedTable    = "42P01"
	undefinedColumn   = "42703"
	undefinedSchema   = "3F000"
	undefinedFunction = "42883"
	readOnly          = "25006"
	cannotConnectNow  = "57P03"
	// noPrivilege also tells of a row that row-level security hides or refuses.
	noPrivilege = "42501"
	// Before PostgreSQL 14, internalError tells that a value lacks a part.
	internalError  = "XX000"
	dataCorrupted  = "XX001"
	indexCorrupted = "XX002"
	// insufficient begins the states of a server that lacks memory, space on its disk, or connections.
	insufficient = "53"
	// These begin the states of a connection, and of a server whose files fail.
	connectionFailure = "08"
	systemError       = "58"
)

// Of returns the SQLSTATE of err, or "" if the server did not say it.
func Of(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// Missing reports whether err says that a table, a column, a schema or a function does not exist. If a role lacks USAGE
// on a schema of the search path, the schema's tables do not exist for the role.
func Missing(err error) bool {
	switch Of(err) {
	case undefinedTable, undefinedColumn, undefinedSchema, undefinedFunction:
		return true
	}
	return false
}

// Corrupt reports whether err says that the server cannot read stored data, such as a row whose value lacks a part. The
// error may be about one row among many.
func Corrupt(err error) bool {
	switch Of(err) {
	case internalError, dataCorrupted, indexCorrupted:
		return true
	}
	return false
}

// Refused reports whether err says that a statement had no effect, although there is nothing wrong with the statement.
// An error that ended a session is no refusal: it may have struck a commit.
func Refused(err error) bool {
	if errors.Is(err, pgtext.ErrEncoding) || unsent(err) {
		return true
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.SeverityUnlocalized != "ERROR" {
		return false
	}
	return e.Code == readOnly || e.Code == noPrivilege || e.Code == cannotConnectNow ||
		strings.HasPrefix(e.Code, insufficient)
}

// Aborted reports whether err says that a transaction has certainly not committed, because of what it did: a constraint
// that is checked by the commit, a deadlock, an error before that its owner has passed over, or an end by its owner. A
// server that is away, full or broken has not aborted it, nor has an error that ended the session: it may have struck
// the commit.
func Aborted(err error) bool {
	if errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, pgx.ErrTxCommitRollback) {
		return true
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.SeverityUnlocalized != "ERROR" || Refused(err) || Missing(err) || Corrupt(err) {
		return false
	}
	switch e.Code[:min(len(e.Code), 2)] {
	case connectionFailure, systemError:
		return false
	}
	return true
}

// unsent reports whether err says that no statement was sent: there was no connection, or nothing could be written to
// it. The server may also have answered that it takes no connection: for this role, for this database, or now.
//
// That a connection is closed says nothing, although pgconn calls it safe to retry: in the simple protocol it is also
// the error of a statement that was at work when its connection broke.
func unsent(err error) bool {
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return connecting || pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}

// remedy says what to do about an error that is Refused, if the error does not say so itself. It ends with a colon, or
// is empty.
func remedy(err error) string {
	switch Of(err) {
	case readOnly:
		return "this is a read-only standby, or transactions are read-only by default: connect to the primary, as " +
			"with target_session_attrs=read-write: "
	case noPrivilege:
		return "the role lacks a right; docs/security.md has the GRANT statements that suffice: "
	}
	return ""
}

// errCutOff says why a store does not believe an answer.
var errCutOff = errors.New("the answer came after ctx had ended, and may be that of a commit that no standby has")
