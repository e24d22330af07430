package pgworkflow

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/workflow"
)

// Pages grow. The first runs should come soon. Pages stay small, because a page is held in memory.
const firstPage, mostPage = 16, 64

// Runs implements [workflow.Front]. It reads a page of 16 runs, and then pages of 64.
func (f *front) Runs(ctx context.Context, q workflow.Query) iter.Seq2[workflow.Run, error] {
	return func(yield func(workflow.Run, error) bool) {
		err := q.Validate()
		if err == nil {
			err = f.readable()
		}
		if err != nil {
			yield(workflow.Run{}, err)
			return
		}
		if err := f.runs(ctx, &q, yield); err != nil {
			yield(workflow.Run{}, f.error(ctx, "runs", "", err))
		}
	}
}

// runs yields what Runs yields. It returns nil if yield asks it to stop.
func (f *front) runs(ctx context.Context, q *workflow.Query, yield func(workflow.Run, error) bool) error {
	list, w := f.selection(q)
	var last *row
	left := q.Limit
	for size := pageOf(q); ; size = mostPage {
		page, more, err := f.page(ctx, list, w.after(q, last), size)
		for i := range page {
			if err := ctxcause.Of(ctx); err != nil {
				return err
			}
			last = &page[i]
			if !yield(last.Run, f.error(ctx, "runs", last.ID, last.intact())) {
				return nil
			}
			if left--; left == 0 {
				return nil
			}
		}
		if err != nil || !more {
			return err
		}
	}
}

// pageOf returns the size of the first page. There are few sizes, because each is another statement.
func pageOf(q *workflow.Query) int {
	switch {
	case q.ID != "" || q.Limit == 1:
		return 1
	case q.Limit > firstPage:
		return mostPage
	}
	return firstPage
}

// page returns the next runs, and whether there may be more. If the server cannot read the documents of all, page reads
// the runs one by one. Of a run whose documents the server cannot read, it returns the rest.
func (f *front) page(ctx context.Context, list string, w *where, size int) (page []row, more bool, err error) {
	page, err = f.rows(ctx, list, w, documents, size)
	if !pgstate.Corrupt(err) {
		return page, len(page) == size, err
	}
	brief, err := f.rows(ctx, list, w, unread, size)
	if err == nil {
		page, err = f.readAlone(ctx, w, brief)
	}
	return page, len(brief) == size, err
}

// rows returns at most size of the runs that w selects. With unread for the documents, it does not judge them either.
func (f *front) rows(ctx context.Context, list string, w *where, docs string, size int) ([]row, error) {
	selected, args := w.render(docs == documents)
	sql := strings.NewReplacer("{selected}", selected, "{documents}", docs, "{size}", strconv.Itoa(size)).Replace(list)
	return pgstate.Collect(ctx, f.db, scan, size, sql, args...)
}

// selection returns the statement for q, and the condition but for where the page begins. A field that is not set has
// no part in it, so that the planner sees which index serves.
func (f *front) selection(q *workflow.Query) (list string, w *where) {
	w = new(where)
	of, next, status := "true", "(m.workflow, m.status) > (k.workflow, k.status)", "true"
	if q.Workflow != "" {
		of, next = "m.workflow = $1::text", "m.workflow = $1::text AND m.status > k.status"
		w = w.with("m.workflow = ?::text", q.Workflow)
	}
	listed := q.Event == "" && q.ID == "" && q.Parent == "" && q.KeyPrefix == ""
	if q.Parent != "" {
		w = w.with("m.parent = ?::text", q.Parent)
	}
	switch {
	case q.Status != "" && listed:
		status = "k.status = '" + string(q.Status) + "'" // a valid status has no quotes
	case q.Status != "":
		w = w.with("m.status || '' = ?::text", string(q.Status)) // see runs
	}
	if !q.Since.IsZero() {
		w = w.with("m.started >= ?::timestamptz", q.Since)
	}
	if !q.Until.IsZero() {
		w = w.with("m.started < ?::timestamptz", q.Until)
	}
	if q.Input != nil {
		w = w.with(inDocument+"m.input @> ?::jsonb", string(q.Input))
	}
	switch {
	case listed:
		return strings.NewReplacer("{of}", of, "{next}", next, "{status}", status).Replace(f.sql.list), w
	case q.Event != "":
		if q.ID != "" {
			w = w.with("m.id = ?::text", q.ID)
		}
		w = w.with("m.event = ?::text", q.Event)
		w = w.with(inDocument+"(m.match IS NULL OR ?::jsonb @> m.match)", orNull(q.Payload))
		return f.sql.waiting, w
	case q.KeyPrefix != "":
		w = w.with("m.key >= ?::text", q.KeyPrefix)
		if end := q.KeysEnd(); end != "" {
			w = w.with("m.key < ?::text", end)
		}
		return f.sql.keyed, w
	case q.ID == "":
		return f.sql.ofParent, w
	}
	return f.sql.one, w.of(q.ID)
}

// inDocument begins a condition that reads a document.
const inDocument = "/* document */ "

// A where is a condition on runs. It has a question mark for each parameter.
type where struct {
	conditions []string
	args       [][]any
}

// with returns w with one more condition.
func (w *where) with(condition string, args ...any) *where {
	more := &where{append([]string(nil), w.conditions...), append([][]any(nil), w.args...)}
	more.conditions, more.args = append(more.conditions, condition), append(more.args, args)
	return more
}

// of returns w for one run. The statement needs its id as the first parameter.
func (w *where) of(id string) *where {
	return &where{
		append([]string{"m.id = ?::text"}, w.conditions...), append([][]any{{id}}, w.args...),
	}
}

// after returns w for the runs that follow last; if it is nil, for those of the first page.
func (w *where) after(q *workflow.Query, last *row) *where {
	switch {
	case last == nil && q.After == nil:
		return w
	case last == nil:
		return w.with("(m.started, m.id) < (?::timestamptz, ?::text)", q.After.Started, q.After.ID)
	case q.Event != "":
		return w.with("(m.since, m.id) > (?::timestamptz, ?::text)", last.since, last.ID)
	case q.KeyPrefix != "":
		return w.with("m.key < ?::text", last.Key)
	}
	return w.with("(m.started, m.id) < (?::timestamptz, ?::text)", last.started, last.ID)
}

// render returns the condition in the form of PostgreSQL, and its arguments.
func (w *where) render(withDocuments bool) (sql string, args []any) {
	parts := []string{"true"}
	for i, c := range w.conditions {
		if !withDocuments && strings.HasPrefix(c, inDocument) {
			continue
		}
		for _, arg := range w.args[i] {
			args = append(args, arg)
			c = strings.Replace(c, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		parts = append(parts, strings.TrimPrefix(c, inDocument))
	}
	return strings.Join(parts, " AND "), args
}
