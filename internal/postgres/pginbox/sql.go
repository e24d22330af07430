package pginbox

import (
	"strings"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// orFirm ends a statement that removes items.
const orFirm = `
		SELECT CASE WHEN EXISTS (SELECT gone.* FROM gone) THEN true ELSE {firm} END`

// queries holds the statements of one store, with its table names filled in.
type queries struct {
	post, list, removeIDs, removeKind, removeAll string

	// listBrief is list without the data. Of an item whose data the server cannot read, the rest is read so.
	listBrief string
}

var templates = queries{
	// A statement does not see an item that another call has posted since the statement began. Then no row is returned,
	// and the statement is sent again.
	//
	// An item that is known is told of after {firm}: the commit waits until what the statement sees is durable.
	post: `
		WITH added AS (
			INSERT INTO {inbox} (orchestrator, session, kind, id, posted_by, shown, at, data)
			VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, clock_timestamp(), $7::jsonb)
			ON CONFLICT (orchestrator, session, kind, id) DO NOTHING
			RETURNING {durable}
		)
		SELECT true, added.* FROM added
		UNION ALL
		SELECT posted_by = $5::text, '' FROM {inbox}
		WHERE orchestrator = $1::text AND session = $2::text AND kind = $3::text AND id = $4::text
			AND NOT EXISTS (SELECT FROM added) AND {firm}`,

	// {selected} is the condition of a page.
	list: `
		SELECT session, id, posted_by, shown, at, {data} FROM {inbox}
		WHERE orchestrator = $1::text AND kind = $2::text AND {selected}
		ORDER BY session, at, id LIMIT $3::bigint`,

	// What is not there may have been removed by a call whose commit no standby has. So its absence is told of after
	// {firm}.
	removeIDs: `
		WITH gone AS (
			DELETE FROM {inbox}
			WHERE orchestrator = $1::text AND session = $2::text AND kind = $3::text AND id = ANY ($4::text[])
			RETURNING {durable}
		)` + orFirm,
	removeKind: `
		WITH gone AS (
			DELETE FROM {inbox} WHERE orchestrator = $1::text AND session = $2::text AND kind = $3::text
			RETURNING {durable}
		)` + orFirm,
	removeAll: `
		WITH gone AS (
			DELETE FROM {inbox} WHERE orchestrator = $1::text AND session = $2::text
			RETURNING {durable}
		)` + orFirm,
}

// These follow the prefix in the names.
var tables, indexes = []string{"inbox"}, []string{"inbox_pkey", "inbox_order"}

// names replaces the placeholders. data is what is read of the data.
func names(d *pgstate.DB, data string) *strings.Replacer {
	return strings.NewReplacer(append(d.Pairs(), "{data}", data)...)
}

func fillAll(d *pgstate.DB) queries {
	q := templates
	q.listBrief = names(d, "NULL::jsonb").Replace(q.list)
	pgstate.Fill(names(d, "data"), &q.post, &q.list, &q.removeIDs, &q.removeKind, &q.removeAll)
	return q
}
