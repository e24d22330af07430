package sqliteworkflow

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	// nextSQL finds when the first run of each definition is due, by the number of the definition.
	nextSQL = `
		SELECT key, (
			SELECT due FROM {prefix}workflow_runs
			WHERE workflow = value ->> 0 AND version = value ->> 1 AND status = 'running' AND due < ` + neverText + `
			ORDER BY due LIMIT 1)
		FROM json_each(?1)`

	dueSQL = `
		SELECT id, due FROM {prefix}workflow_runs
		WHERE workflow = ?1 AND version = ?2 AND status = 'running' AND due <= ?3
		ORDER BY due, id LIMIT ?4`

	claimSQL = `
		UPDATE {prefix}workflow_runs SET owner = ?2, epoch = epoch + 1, nonce = ?3, since = ?4,
			hold = '', error = '', due = NULL, event = '', match = NULL
		WHERE id = ?1
		RETURNING id, workflow, version, coalesce(key, ''), coalesce(parent, ''), retention, started, epoch, mail`

	inputsSQL = `
		SELECT run, input FROM {prefix}workflow_inputs
		WHERE run IN (SELECT value FROM json_each(?1))`

	neverText = `4611686018427387904`
)

// Claim implements [workflow.Store]. It looks for runs first, and writes only if it finds some, or has definitions to
// note.
func (s *Store) Claim(
	ctx context.Context, r workflow.ClaimRequest,
) (claimed []workflow.Claimed, next time.Duration, err error) {
	st, err := s.db.Start(ctx, r.Validate())
	if err == nil {
		c := claim{ClaimRequest: &r, definitions: definitions(r.Definitions), now: clock()}
		claimed, next, err = s.claim(ctx, st, c)
	}
	if err != nil {
		return nil, 0, s.explain(ctx, "claim", err)
	}
	return claimed, next, nil
}

// A claim is a ClaimRequest at a time.
type claim struct {
	*workflow.ClaimRequest

	definitions []workflow.Definition // each once
	now         time.Time
	admissions  map[string]*workflow.Admission // of the limits, by workflow
}

func definitions(all []workflow.Definition) []workflow.Definition {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b workflow.Definition) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Version, b.Version))
	})
	return slices.Compact(all)
}

// due reports whether c is for runs that are due.
func (c *claim) due() bool { return c.From == "" && c.Again == "" && c.Lease == 0 }

func (s *Store) claim(
	ctx context.Context, st sqlitestore.Statements, c claim,
) (claimed []workflow.Claimed, next time.Duration, err error) {
	found, next, err := run{sqlitestore.Alone(st), s.core}.look(ctx, &c)
	if err != nil || len(found) == 0 && c.Lease == 0 {
		return nil, next, err
	}
	err = s.db.WriteTxLightly(ctx, func(tx *sql.Tx) error {
		return s.locked(ctx, tx, st, func(do run) error {
			c.now = clock()
			claimed, next, err = do.claim(ctx, &c)
			return err
		})
	})
	if err == nil && len(claimed) > 0 {
		claimed, err = s.withInputs(ctx, st, claimed)
	}
	return claimed, next, err
}

// claim claims what it finds. The caller has the write lock.
func (do run) claim(ctx context.Context, c *claim) (claimed []workflow.Claimed, next time.Duration, err error) {
	if c.Lease > 0 {
		if err := do.note(ctx, c); err != nil {
			return nil, 0, err
		}
	}
	found, next, err := do.look(ctx, c)
	for _, f := range found {
		if err != nil || len(claimed) == c.Limit {
			break
		}
		var held bool
		if c.From != "" || c.Lease > 0 {
			held, err = do.crash(ctx, c, f.id)
		}
		if err == nil && !held {
			claimed, err = do.own(ctx, c, f.id, claimed)
		}
	}
	if err == nil {
		err = do.spend(ctx, c)
	}
	if c.admissions = nil; err == nil && c.due() && len(claimed) > 0 && len(claimed) < c.Limit {
		_, next, err = do.look(ctx, c) // later runs of the same definitions
	}
	return claimed, next, err
}

// own makes the process the owner of a run, and adds it to the claimed runs.
func (do run) own(
	ctx context.Context, c *claim, id string, claimed []workflow.Claimed,
) ([]workflow.Claimed, error) {
	r, err := sqlitestore.One(ctx, do.Runner, scanClaimed, claimSQL, id, c.Process, c.Nonce, c.now.UnixMicro())
	if err != nil || r == nil {
		return claimed, err
	}
	r.Status, r.Owner, r.Fence.Nonce, r.Now = workflow.Running, c.Process, c.Nonce, c.now
	return append(claimed, *r), nil
}

func scanClaimed(rows *sql.Rows) (c workflow.Claimed, err error) {
	var started int64
	err = rows.Scan(&c.ID, &c.Workflow, &c.Version, &c.Key, &c.Parent, &c.RetentionDays, &started, &c.Fence.Epoch,
		&c.Mail)
	c.Started = time.UnixMicro(started).UTC()
	return c, err
}

// A candidate is a run that a claim may claim. due is in µs.
type candidate struct {
	id  string
	due int64
}

// compare orders candidates by when they are due.
func (a candidate) compare(b candidate) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.id, b.id))
}

func scanCandidate(rows *sql.Rows) (c candidate, err error) {
	err = rows.Scan(&c.id, &c.due)
	return c, err
}

// look returns the runs that c may claim, in order. If c is for runs that are due, and finds none, next is how long it
// is until one is.
func (do run) look(ctx context.Context, c *claim) (found []candidate, next time.Duration, err error) {
	if !c.due() {
		found, err = do.owned(ctx, c)
		return found, 0, err
	}
	if c.Limit == 0 || len(c.definitions) == 0 {
		return nil, 0, nil
	}
	firsts, err := do.firsts(ctx, c.definitions)
	if err != nil {
		return nil, 0, err
	}
	now, first := c.now.UnixMicro(), int64(never)
	limited := make([]*cursor, 0, len(c.Limits))
	for _, f := range firsts {
		if f.due > now {
			first = min(first, f.due)
			continue
		}
		if _, ok := c.Limits[f.Workflow]; ok {
			limited = append(limited, &cursor{Definition: f.Definition, last: candidate{due: math.MinInt64}})
			continue
		}
		rows, err := do.Query(ctx, dueSQL, f.Workflow, f.Version, now, c.Limit)
		due, err := sqlitestore.Collect(rows, err, scanCandidate)
		if err != nil {
			return nil, 0, err
		}
		found = append(found, due...)
	}
	slices.SortFunc(found, candidate.compare)
	if len(limited) > 0 {
		if found, err = do.admit(ctx, c, limited, found); err != nil {
			return nil, 0, err
		}
	}
	if len(found) >= c.Limit {
		return found[:c.Limit], 0, nil
	}
	if first < never {
		next = time.Duration(first-now) * time.Microsecond
	}
	return found, c.heldBack(next), nil
}

// A first is when the first run of a definition is due.
type first struct {
	workflow.Definition

	due int64
}

// firsts leaves out the definitions without a run that goes on by itself.
func (do run) firsts(ctx context.Context, definitions []workflow.Definition) ([]first, error) {
	pairs := make([][2]any, len(definitions))
	for i, d := range definitions {
		pairs[i] = [2]any{d.Workflow, d.Version}
	}
	list, err := json.Marshal(pairs)
	if err != nil {
		return nil, err
	}
	rows, err := do.Query(ctx, nextSQL, string(list))
	all, err := sqlitestore.Collect(rows, err, func(rows *sql.Rows) (f first, err error) {
		var i int
		var due sql.NullInt64
		err = rows.Scan(&i, &due)
		if f.due = never; due.Valid {
			f.due = due.Int64
		}
		f.Definition = definitions[i]
		return f, err
	})
	return slices.DeleteFunc(all, func(f first) bool { return f.due == never }), err
}

// withInputs reads the inputs of runs that were claimed. Runs whose input cannot be read are held, and left out.
func (s *Store) withInputs(
	ctx context.Context, st sqlitestore.Statements, claimed []workflow.Claimed,
) (whole []workflow.Claimed, err error) {
	do := run{sqlitestore.Alone(st), s.core}
	ids := make([]string, len(claimed))
	for i := range claimed {
		ids[i] = claimed[i].ID
	}
	inputs, err := do.inputs(ctx, ids...)
	if err != nil && !sqlitestore.Corrupt(err) {
		return nil, err
	}
	for _, c := range claimed {
		in := inputs[c.ID]
		if in == nil { // SQLite has stopped at an input that it cannot read
			alone, err := do.inputs(ctx, c.ID)
			if err != nil && !sqlitestore.Corrupt(err) {
				return nil, err
			}
			if in = alone[c.ID]; in == nil {
				if err := s.holdDamaged(ctx, c, err); err != nil {
					return nil, err
				}
				continue
			}
		}
		c.Input = in
		whole = append(whole, c)
	}
	return whole, nil
}

// inputs returns the inputs of runs by id. If SQLite cannot read one, it returns some, and the error.
func (do run) inputs(ctx context.Context, ids ...string) (map[string]json.RawMessage, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	inputs := make(map[string]json.RawMessage, len(ids))
	rows, err := do.Query(ctx, inputsSQL, string(list))
	_, err = sqlitestore.Collect(rows, err, func(rows *sql.Rows) (id string, err error) {
		var in []byte
		err = rows.Scan(&id, &in)
		inputs[id] = in
		return id, err
	})
	return inputs, err
}

// holdDamaged holds a run that was claimed, because its input cannot be read.
func (s *Store) holdDamaged(ctx context.Context, c workflow.Claimed, err error) error {
	damage := workflow.Damaged(c.ID, fmt.Errorf("input: %w", cmp.Or(err, errMissing)))
	_, err = s.Write(ctx, []workflow.Entry{{
		Run: c.ID, Fence: c.Fence, Mail: -1,
		Next: workflow.Stop, Held: workflow.Drifted, Error: workflow.ErrorText(damage.Error()),
	}})
	return err
}

var errMissing = errors.New("its row is missing")
