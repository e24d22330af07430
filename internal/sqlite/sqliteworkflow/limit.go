package sqliteworkflow

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	// admittedSQL finds runs of a definition that are due, after the one with due ?4 and id ?5. ?6 says whether runs
	// may begin, and ?7 has the groups that have no room.
	admittedSQL = `
		SELECT id, due, nonce <> '', ` + groupText + ` FROM {prefix}workflow_runs
		WHERE workflow = ?1 AND version = ?2 AND status = 'running' AND ?3 >= due AND (due, id) > (?4, ?5)
			AND (?6 OR nonce <> '') AND ` + groupText + ` NOT IN (SELECT value FROM json_each(?7))
		ORDER BY due, id LIMIT 64`

	// ownersSQL counts the runs of a workflow that have an owner, by group. There are few versions, so it looks for
	// each.
	ownersSQL = `
		WITH RECURSIVE v (version) AS (
			SELECT (SELECT min(version) FROM {prefix}workflow_runs WHERE workflow = ?1)
			UNION ALL
			SELECT (SELECT min(version) FROM {prefix}workflow_runs WHERE workflow = ?1 AND version > v.version)
			FROM v WHERE v.version IS NOT NULL
		)
		SELECT ` + groupText + ` AS name, count(*) FROM v CROSS JOIN {prefix}workflow_runs m
		WHERE m.workflow = ?1 AND m.version = v.version AND m.status = 'running' AND m.due IS NULL
		GROUP BY 1`

	tokensSQL = `SELECT tokens, at FROM {prefix}workflow_limits WHERE workflow = ?1`

	spendSQL = `INSERT OR REPLACE INTO {prefix}workflow_limits (workflow, tokens, at) VALUES (?1, ?2, ?3)`
)

// A cursor reads the runs of a definition that are due, the longest due first. It leaves out runs that the limit has no
// room for when a page is read.
type cursor struct {
	workflow.Definition

	page  []hopeful
	last  candidate
	ended bool
}

// A hopeful is a candidate with what a limit asks for.
type hopeful struct {
	candidate

	begun bool
	group string
}

func scanHopeful(rows *sql.Rows) (w hopeful, err error) {
	err = rows.Scan(&w.id, &w.due, &w.begun, &w.group)
	return w, err
}

// admit merges the runs with a limit into those without one, in the order in which they are due, until there are as
// many as the claim asks for. What is decided without the write lock is decided again.
func (do run) admit(
	ctx context.Context, c *claim, limited []*cursor, others []candidate,
) (found []candidate, err error) {
	if err := do.count(ctx, c); err != nil {
		return nil, err
	}
	for len(found) < c.Limit {
		var first *cursor
		for _, k := range limited {
			if err := do.fill(ctx, c, k); err != nil {
				return nil, err
			}
			if !k.ended && (first == nil || k.page[0].compare(first.page[0].candidate) < 0) {
				first = k
			}
		}
		if first == nil && len(others) == 0 {
			break
		}
		if first == nil || len(others) > 0 && others[0].compare(first.page[0].candidate) < 0 {
			found, others = append(found, others[0]), others[1:]
			continue
		}
		w := first.page[0]
		first.page = first.page[1:]
		if c.admissions[first.Workflow].Admit(w.group, w.begun) {
			found = append(found, w.candidate)
		}
	}
	return found, nil
}

// count counts the owned runs and the tokens of the workflows with a limit.
func (do run) count(ctx context.Context, c *claim) error {
	c.admissions = make(map[string]*workflow.Admission, len(c.Limits))
	for name, l := range c.Limits {
		a := &workflow.Admission{Limit: l, Tokens: l.Most(), Groups: make(map[string]int)}
		rows, err := do.Query(ctx, ownersSQL, name)
		_, err = sqlitestore.Collect(rows, err, func(rows *sql.Rows) (n int, err error) {
			var group string
			err = rows.Scan(&group, &n)
			a.Owned += n
			a.Groups[group] = n
			return n, err
		})
		if err == nil && l.PerSecond > 0 {
			_, err = sqlitestore.One(ctx, do.Runner, func(rows *sql.Rows) (at int64, err error) {
				err = rows.Scan(&a.Tokens, &at)
				a.Tokens = l.Filled(a.Tokens, time.Duration(c.now.UnixMicro()-at)*time.Microsecond)
				return at, err
			}, tokensSQL, name)
		}
		if err != nil {
			return err
		}
		c.admissions[name] = a
	}
	return nil
}

// fill reads a page if the last one was used up.
func (do run) fill(ctx context.Context, c *claim, k *cursor) error {
	a := c.admissions[k.Workflow]
	if k.ended = k.ended || a.Full(); k.ended {
		a.HeldBack = a.HeldBack || a.Full()
		return nil
	}
	if len(k.page) > 0 {
		return nil
	}
	full := []string{}
	for group := range a.Groups {
		if !a.Room(group) {
			full = append(full, group)
		}
	}
	list, err := json.Marshal(full)
	if err != nil {
		return err
	}
	a.HeldBack = a.HeldBack || len(full) > 0 || !a.MayBegin()
	rows, err := do.Query(ctx, admittedSQL, k.Workflow, k.Version, c.now.UnixMicro(), k.last.due, k.last.id,
		a.MayBegin(), string(list))
	k.page, err = sqlitestore.Collect(rows, err, scanHopeful)
	if k.ended = len(k.page) == 0; !k.ended {
		k.last = k.page[len(k.page)-1].candidate
	}
	return err
}

// heldBack returns when the claim should be repeated at the latest.
func (c *claim) heldBack(next time.Duration) time.Duration {
	for _, a := range c.admissions {
		if wait := a.Next(a.Tokens); a.HeldBack && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// spend keeps what the buckets have left. The caller has the write lock.
func (do run) spend(ctx context.Context, c *claim) error {
	for name, a := range c.admissions {
		if a.PerSecond == 0 {
			continue
		}
		if _, err := do.Exec(ctx, spendSQL, name, a.Tokens, c.now.UnixMicro()); err != nil {
			return err
		}
	}
	return nil
}
