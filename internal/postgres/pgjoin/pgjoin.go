// Package pgjoin lets one statement write in both stores on PostgreSQL.
package pgjoin

import "github.com/holdfast-go/holdfast/internal/postgres/pgstate"

// A Part is the addition of the store of runs to the statement by which the checkpoint store appends a turn.
type Part struct {
	DB *pgstate.DB // of the store of runs

	// SQL holds queries of that statement's WITH clause. They read its parameters: $1 and $2 name the session, $3 and
	// $4 are the fence, $11 is the id of the run. The query h has a row if the turn is appended. The query forgotten
	// has a row if the run is deleted.
	SQL string

	// Call is used if the store calls functions. It calls a function with the parameters of that statement. It has the
	// place {append} for the name of the function that appends. The called function calls that function with the same
	// parameters, and returns its result. If it has deleted the run too, it returns "forgotten".
	Call string
}
