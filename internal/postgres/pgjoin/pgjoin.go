// Package pgjoin lets one statement write in both stores on PostgreSQL.
package pgjoin

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// The parameters of a statement that records the end of a run, after those of the append.
const (
	EndAt    = "$16"
	EndState = "$17"
)

// The parameters of a statement that saves a run with entries, after those of the ledger.
const (
	EntryTimes  = "$33::timestamptz[]"
	EntryPhases = "$34::text[]"
	EntryStates = "$35::text[]"
	EntryTurn   = "$36::integer"
)

// A Log is a turn log on PostgreSQL.
type Log interface {
	// EndPart returns queries that record the end of the run $11 of turn $5, if the query h has a row: its time is
	// EndAt and its state EndState. The query ended has a row if the entry is added.
	EndPart() Part

	// EntriesPart returns what records entries of the run $3 of the session $1 and $2. Its parameters are those of
	// pgturnlog.EntryArgs.
	EntriesPart() Cargo
}

// A Cargo is the addition of a ledger or a turn log to the statement that saves a run. That statement has 16 parameters
// of its own. Those of the ledger follow, and then those of the log.
type Cargo struct {
	DB *pgstate.DB // of the ledger or the log

	// Ready is the condition that the cargo is plain: see snapshot.SaveEffects.
	Ready string

	// Write holds queries of the WITH clause that write the cargo if the query r has a row. Done is the condition that
	// they have written all of it.
	Write, Done string
}

// After returns p for the case that its work follows that of q: it does nothing unless the query done of q has a row.
func (p Part) After(q Part, done string) Part {
	p.SQL = q.SQL + "," + strings.ReplaceAll(p.SQL, "EXISTS (SELECT FROM h)", "EXISTS (SELECT FROM "+done+")")
	return p
}

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
