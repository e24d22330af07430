// Package pgjoin is what the stores on PostgreSQL tell each other so that one statement can write in both.
package pgjoin

import "github.com/holdfast-go/holdfast/internal/pgstate"

// A Part is what the store of runs adds to the statement by which the checkpoint store appends a turn.
type Part struct {
	DB *pgstate.DB // of the store of runs

	// SQL holds queries of that statement's WITH clause. They read its parameters: $1 and $2 name the session, $3 and $4
	// are the fence, $11 is the id of the run. The query h has a row if the turn is appended. The query forgotten has a row
	// if the run is deleted.
	SQL string

	// Call is a call of a function with the parameters of that statement, if the store calls functions. It has the place
	// {append} for the name of the function that appends, which it calls with the same parameters. It returns what that
	// one returns, or "forgotten" if it has deleted the run too.
	Call string
}
