package sqliteworkflow

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

// Each statement finds the next ?1 runs after the place (?2, ?3) by an index alone, without the rows. ?4 is the least
// time of their start.
const (
	allSQL = inStatus + `'running'` + next + `
		UNION ALL` + inStatus + `'completed'` + next + `
		UNION ALL` + inStatus + `'failed'` + next + `
		UNION ALL` + inStatus + `'cancelled'` + next + newest

	statusSQL = inStatus + `?5` + next + newest

	workflowSQL = inStatus + `'running' AND workflow = ?5` + next + `
		UNION ALL` + inStatus + `'completed' AND workflow = ?5` + next + `
		UNION ALL` + inStatus + `'failed' AND workflow = ?5` + next + `
		UNION ALL` + inStatus + `'cancelled' AND workflow = ?5` + next + newest

	bothSQL = inStatus + `?5 AND workflow = ?6` + next + newest

	inStatus = `
		SELECT id, started FROM {prefix}workflow_runs WHERE status = `

	next = ` AND (started, id) < (?2, ?3) AND started >= ?4`

	newest = `
		ORDER BY started DESC, id DESC LIMIT ?1`

	ofParentSQL = `
		SELECT id, started FROM {prefix}workflow_runs INDEXED BY {prefix}workflow_runs_parent
		WHERE parent = ?5` + next + newest

	// eventSQL finds runs that wait for the event ?4, the longest first.
	eventSQL = `
		SELECT id, since FROM {prefix}workflow_runs INDEXED BY {prefix}workflow_runs_event
		WHERE event = ?4 AND event <> '' AND (since, id) > (?2, ?3) AND (?5 = '' OR workflow = ?5)
		ORDER BY since, id LIMIT ?1`

	// keyedSQL finds runs of the workflow ?2 by their keys, from ?3 on and before ?4, the greatest first.
	keyedSQL = `
		SELECT id, 0, key FROM {prefix}workflow_runs INDEXED BY {prefix}workflow_runs_key
		WHERE workflow = ?2 AND key >= ?3 AND key < ?4
		ORDER BY key DESC LIMIT ?1`
)

// Pages grow. The first runs should come soon. Pages stay small, because a page is held in memory.
const firstPage, mostPage = 16, 64

// Runs implements [workflow.Front]. It reads pages of 16 and then 64 runs.
func (c front) Runs(ctx context.Context, q workflow.Query) iter.Seq2[workflow.Run, error] {
	return func(yield func(workflow.Run, error) bool) {
		do, err := c.reader(ctx, q.Validate())
		if err == nil {
			err = do.runs(ctx, &q, yield)
		}
		if err != nil {
			yield(workflow.Run{}, c.explain(ctx, "runs", err))
		}
	}
}

// runs yields what Runs yields. It returns nil if yield asks it to stop.
func (do run) runs(ctx context.Context, q *workflow.Query, yield func(workflow.Run, error) bool) error {
	left, after := q.Limit, begin(q)
	for size := firstPage; ; size = mostPage {
		if left > 0 && q.Input == nil {
			size = min(size, left)
		}
		page, err := do.page(ctx, q, after, size)
		if err != nil {
			return err
		}
		found, err := do.read(ctx, ids(page)...)
		if err != nil {
			return err
		}
		for _, after = range page {
			f, ok := found[after.id]
			if !ok || !f.fits(q) {
				continue // it has changed since, or it has another input
			}
			if err := ctxcause.Of(ctx); err != nil {
				return err
			}
			if left--; !yield(f.Run, f.damage) || left == 0 {
				return nil
			}
		}
		if q.ID != "" || len(page) < size {
			return nil
		}
	}
}

// A place is where a page begins: after this time in µs, and this id; or before this key.
type place struct {
	id   string
	time int64
	key  string
}

func scanPlace(rows *sql.Rows) (p place, err error) {
	err = rows.Scan(&p.id, &p.time)
	return p, err
}

func ids(page []place) []string {
	ids := make([]string, len(page))
	for i, p := range page {
		ids[i] = p.id
	}
	return ids
}

// begin returns the place where the first page begins.
func begin(q *workflow.Query) place {
	if q.Event != "" {
		return place{time: math.MinInt64}
	}
	p := place{time: math.MaxInt64, key: cmp.Or(q.KeysEnd(), "\xff")} // which no text reaches
	if !q.Until.IsZero() {
		p.time = ceil(q.Until)
	}
	if q.After != nil {
		if after := (place{id: q.After.ID, time: q.After.Started.UnixMicro()}); after.time < p.time {
			p = after
		}
	}
	return p
}

// page returns the places of the next runs.
func (do run) page(ctx context.Context, q *workflow.Query, after place, size int) ([]place, error) {
	if q.ID != "" {
		return []place{{id: q.ID}}, nil
	}
	if q.KeyPrefix != "" {
		rows, err := do.Query(ctx, keyedSQL, size, q.Workflow, q.KeyPrefix, after.key)
		return sqlitestore.Collect(rows, err, func(rows *sql.Rows) (p place, err error) {
			err = rows.Scan(&p.id, &p.time, &p.key)
			return p, err
		})
	}
	text, args := allSQL, []any{size, after.time, after.id, ceil(q.Since)}
	switch {
	case q.Event != "":
		text, args = eventSQL, append(args[:3], q.Event, q.Workflow)
	case q.Parent != "":
		text, args = ofParentSQL, append(args, q.Parent)
	case q.Workflow != "" && q.Status != "":
		text, args = bothSQL, append(args, string(q.Status), q.Workflow)
	case q.Workflow != "":
		text, args = workflowSQL, append(args, q.Workflow)
	case q.Status != "":
		text, args = statusSQL, append(args, string(q.Status))
	}
	rows, err := do.Query(ctx, text, args...)
	return sqlitestore.Collect(rows, err, scanPlace)
}

// ceil returns the first µs that is not before t.
func ceil(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.Add(time.Microsecond - 1).UnixMicro()
}

// fits reports whether q selects the run. Of a run that is damaged it judges what can be read.
func (f *finding) fits(q *workflow.Query) bool {
	r := &f.Run
	return (q.Workflow == "" || r.Workflow == q.Workflow) && (q.Status == "" || r.Status == q.Status) &&
		(q.Parent == "" || r.Parent == q.Parent) &&
		!r.Started.Before(q.Since) && (q.Until.IsZero() || r.Started.Before(q.Until)) &&
		(q.After == nil || older(r, q.After)) && strings.HasPrefix(r.Key, q.KeyPrefix) &&
		(f.damage != nil || workflow.Contains(r.Input, q.Input)) &&
		(q.Event == "" || f.waits(q.Event, q.Payload))
}

// older reports whether a list has r after the run after.
func older(r, after *workflow.Run) bool {
	c := r.Started.Compare(after.Started)
	return c < 0 || c == 0 && r.ID < after.ID
}

// waits reports whether a signal of the event, with the payload, wakes the run.
func (f *finding) waits(event string, payload json.RawMessage) bool {
	return f.Status == workflow.Running && f.Owner == "" && f.Hold == "" && f.Event == event &&
		workflow.Contains(json.RawMessage(document(payload)), f.match)
}
