package citusrules

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Breach is a statement that Citus would refuse, or would not do in one transaction on one node.
type Breach struct {
	Rule      string
	Statement string // of the client
	// Inside is the statement in a function, and where it is.
	Inside string
}

// These are the rules.
const (
	Pipeline     = "a pipeline of different statements is not one transaction"
	WithModifies = "a WITH that modifies is run piece by piece, and ends in a two-phase commit"
	VolatileSet  = "SET must not call volatile functions"
	Where        = "WHERE of what writes must not call volatile functions"
	StableColumn = "stable functions in what writes must not read columns, and must not be in CASE or COALESCE"
	Returning    = "RETURNING must call immutable functions only"
	OnConflict   = "DO UPDATE must call immutable functions only"
	InsertSelect = "INSERT must have VALUES, without subqueries"
	AnySession   = "what writes must name the session"
	LockShards   = "what locks rows must name the session"
	JoinShards   = "a query of several tables, or with subqueries, must name the session for each"
	LocalTable   = "distributed and other tables must not be in one query"
	Advisory     = "an advisory lock holds on one node only"
)

const (
	selects, updates, inserts = "1", "2", "3"
	volatile, stable          = 'v', 's'
	relationEntry             = "0"
)

// A catalog is the rules' knowledge of the database.
type catalog struct {
	// tables has the number of the column session, by the table.
	tables    map[string]string
	functions map[string]rune // volatility
	advisory  map[string]bool
	operators map[string]string // the function
	equal     map[string]bool   // operators
	inputs    map[string]string // of types
}

func readCatalog(ctx context.Context, pool *pgxpool.Pool, tables []string) (*catalog, error) {
	c := &catalog{
		make(map[string]string), make(map[string]rune), make(map[string]bool), make(map[string]string),
		make(map[string]bool), make(map[string]string),
	}
	var a, b, x string
	for _, q := range []struct {
		sql  string
		args []any
		read func()
	}{
		{"SELECT attrelid::text, attnum::text, '' FROM pg_attribute JOIN pg_class t ON t.oid = attrelid " +
			"WHERE relname = ANY($1) AND attname = 'session'", []any{tables}, func() { c.tables[a] = b }},
		{"SELECT oid::text, provolatile::text, proname FROM pg_proc", nil, func() {
			c.functions[a] = rune(b[0])
			c.advisory[a] = strings.HasPrefix(x, "pg_advisory") || strings.HasPrefix(x, "pg_try_advisory")
		}},
		{"SELECT oid::text, oprcode::oid::text, oprname FROM pg_operator", nil, func() {
			c.operators[a], c.equal[a] = b, x == "="
		}},
		{"SELECT oid::text, typinput::oid::text, '' FROM pg_type", nil, func() { c.inputs[a] = b }},
	} {
		rows, err := pool.Query(ctx, q.sql, q.args...)
		if err != nil {
			return nil, err
		}
		if _, err := pgx.ForEachRow(rows, []any{&a, &b, &x}, func() error { q.read(); return nil }); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// calls returns how volatile a node is by itself, and whether it calls a function.
func (c *catalog) calls(n *node) (worst rune) {
	consider := func(function string) {
		switch v := c.functions[function]; {
		case v == volatile, v == stable && worst != volatile:
			worst = v
		}
	}
	for _, field := range []string{"funcid", "opfuncid", "aggfnoid", "winfnoid"} {
		consider(n.text(field))
	}
	switch n.kind {
	case "COERCEVIAIO":
		consider(c.inputs[n.text("resulttype")])
	case "ROWCOMPAREEXPR", "ROWCOMPARE":
		for _, v := range n.fields["opnos"] {
			l, _ := v.(list)
			for _, o := range l {
				operator, _ := o.(string)
				consider(c.operators[operator])
			}
		}
	case "SQLVALUEFUNCTION":
		if worst == 0 {
			worst = stable
		}
	case "NEXTVALUEEXPR":
		worst = volatile
	}
	return worst
}

// worst returns how volatile v is, with everything in v.
func (c *catalog) worst(v any) (worst rune) {
	walk(v, func(n *node) bool {
		if is := c.calls(n); is == volatile || is == stable && worst != volatile {
			worst = is
		}
		return true
	})
	return worst
}

// irreducible reports whether Citus cannot replace the stable functions in v by their values before it sends v.
func (c *catalog) irreducible(v any) (found bool) {
	walk(v, func(n *node) bool {
		lazy := n.kind == "CASE" || n.kind == "CASEEXPR" || n.kind == "COALESCE" || n.kind == "COALESCEEXPR"
		switch {
		case lazy && c.worst(n) != 0:
			found = true
		case c.calls(n) == stable:
			walk(n, func(inner *node) bool {
				found = found || inner.kind == "VAR"
				return true
			})
		}
		return !lazy
	})
	return found
}

// A judge collects the rules that one statement breaks.
type judge struct {
	*catalog
	// client says whether a client has sent the statement.
	client bool
	// inner says whether the query is in another one.
	inner bool
	rules []string
}

func (j *judge) refuse(rule string, broken bool) {
	if broken && !slices.Contains(j.rules, rule) {
		j.rules = append(j.rules, rule)
	}
}

// query judges a query and all queries in it.
func (j *judge) query(q *node) {
	j.refuse(Advisory, j.client && j.locksAdvisory(q))
	if ours := j.distributed(q); len(ours) > 0 {
		j.refuse(LocalTable, len(ours) < len(relations(q)))
		if q.text("commandType") == selects {
			j.reads(q, ours)
		} else {
			j.writes(q, ours)
		}
	}
	for _, cte := range q.nodes("cteList") {
		for _, inner := range cte.nodes("ctequery") {
			j.refuse(WithModifies, inner.text("commandType") != selects && len(j.distributed(inner)) > 0)
		}
	}
	walk(q, func(n *node) bool {
		if n != q && n.kind == "QUERY" {
			inner := judge{j.catalog, j.client, true, nil}
			inner.query(n)
			for _, rule := range inner.rules {
				j.refuse(rule, true)
			}
			return false
		}
		return true
	})
}

func (j *judge) locksAdvisory(q *node) (found bool) {
	walk(q, func(n *node) bool {
		found = found || j.advisory[n.text("funcid")]
		return true
	})
	return found
}

func (j *judge) reads(q *node, ours []relation) {
	if all(ours, func(r relation) bool { return j.named(q, r) }) {
		return
	}
	j.refuse(LockShards, len(q.nodes("rowMarks")) > 0)
	j.refuse(JoinShards, j.inner || len(q.nodes("rtable")) > 1 || q.text("hasSubLinks") == "true" ||
		len(q.nodes("cteList")) > 0)
}

func (j *judge) writes(q *node, ours []relation) {
	command := q.text("commandType")
	targets, quals, conflict := q.nodes("targetList"), q.nodes("jointree"), q.nodes("onConflict")
	j.refuse(VolatileSet, command == updates && j.worst(targets) == volatile)
	j.refuse(Where, j.worst(quals) == volatile || j.worst(q.nodes("cteList")) == volatile)
	j.refuse(StableColumn, command == updates && j.irreducible(targets) || j.irreducible(quals))
	j.refuse(Returning, j.worst(q.nodes("returningList")) != 0)
	j.refuse(OnConflict, j.worst(conflict) != 0)
	if command == inserts {
		j.refuse(InsertSelect, q.text("hasSubLinks") == "true" || len(q.nodes("rtable")) > len(conflict)+1)
		j.refuse(AnySession, !slices.ContainsFunc(targets, func(t *node) bool {
			return t.text("resno") == ours[0].session && all(t.nodes("expr"), fixed)
		}))
		return
	}
	j.refuse(AnySession, !all(ours, func(r relation) bool { return j.named(q, r) }))
}

// A relation is a distributed table in a query.
type relation struct {
	index   int // from 1
	session string
}

// relations returns the tables of a query by their place in the query, without the tables of inner queries.
func relations(q *node) map[int]*node {
	found := make(map[int]*node)
	for i, e := range q.nodes("rtable") {
		excluded := slices.ContainsFunc(q.nodes("onConflict"), func(c *node) bool {
			return c.text("exclRelIndex") == strconv.Itoa(i+1)
		})
		if e.text("rtekind") == relationEntry && !excluded {
			found[i+1] = e
		}
	}
	return found
}

func (j *judge) distributed(q *node) (ours []relation) {
	for i, e := range relations(q) {
		if session, is := j.tables[e.text("relid")]; is {
			ours = append(ours, relation{i, session})
		}
	}
	return ours
}

// named reports whether a query asks for one session of a table.
func (j *judge) named(q *node, r relation) bool {
	found := false
	for _, from := range q.nodes("jointree") {
		for _, qual := range conjuncts(from.nodes("quals")) {
			found = found || qual.kind == "OPEXPR" && j.equal[qual.text("opno")] && r.compared(qual.nodes("args"))
		}
	}
	return found
}

// conjuncts returns the conditions that must all be true for quals to be true.
func conjuncts(quals []*node) (all []*node) {
	for _, q := range quals {
		if (q.kind == "BOOLEXPR" || q.kind == "BOOL") && q.text("boolop") == "and" {
			all = append(all, conjuncts(q.nodes("args"))...)
		} else {
			all = append(all, q)
		}
	}
	return all
}

// compared reports whether one of two values is the column session, and the other is known before the query runs.
func (r relation) compared(args []*node) bool {
	column := func(n *node) bool {
		return n.kind == "VAR" && n.text("varno") == strconv.Itoa(r.index) && n.text("varattno") == r.session &&
			n.text("varlevelsup") == "0"
	}
	return len(args) == 2 && (column(args[0]) && fixed(args[1]) || column(args[1]) && fixed(args[0]))
}

func fixed(n *node) bool {
	if n.kind == "RELABELTYPE" {
		return all(n.nodes("arg"), fixed)
	}
	return n.kind == "PARAM" || n.kind == "CONST"
}

func all[T any](s []T, f func(T) bool) bool {
	return len(s) > 0 && !slices.ContainsFunc(s, func(t T) bool { return !f(t) })
}
