package pgworkflow

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// Write implements [workflow.Store]. An entry is one statement, and all are one transaction in one round trip. If an
// entry is refused, there is one more statement. An entry with very many outcomes is several statements, each with the
// fence: the first one locks the run.
func (s *Store) Write(ctx context.Context, entries []workflow.Entry) (verdicts []error, err error) {
	if err := workflow.ValidateWrite(entries); err != nil || len(entries) == 0 {
		return nil, err
	}
	verdicts = make([]error, len(entries))
	order := sorted(entries, func(a, b *workflow.Entry) int { return cmp.Compare(a.Run, b.Run) })
	for range tries {
		if order, err = s.write(ctx, entries, order, verdicts); err != nil || len(order) == 0 {
			if err != nil {
				return nil, s.error(ctx, "write", "", err)
			}
			return verdicts, nil
		}
	}
	return nil, s.error(ctx, "write", "", changing("run"))
}

// write writes the entries with these indexes, and sets their verdicts. It returns the indexes of entries that have to
// be sent again.
func (s *Store) write(
	ctx context.Context, entries []workflow.Entry, order []int, verdicts []error,
) (again []int, err error) {
	wrote := make([]bool, len(entries))
	err = s.db.Answered(ctx, func() error {
		calls := make([]call, 0, len(order))
		for _, i := range order {
			wrote[i] = false
			calls = s.writes(calls, &entries[i], each(func() { wrote[i] = true }, nil, nil))
		}
		return s.pipe(ctx, calls)
	})
	if err != nil {
		return nil, err
	}
	var refused []int
	var runs []string
	for _, i := range order {
		if !wrote[i] {
			refused, runs = append(refused, i), append(runs, entries[i].Run)
		}
	}
	if len(refused) == 0 {
		return nil, nil
	}
	found, err := s.why(ctx, runs)
	for _, i := range refused {
		st, ok := found[entries[i].Run]
		if !ok {
			verdicts[i] = workflow.ErrNotFound
			continue
		}
		repeated := false
		if e := &entries[i]; e.Next != workflow.Record {
			repeated, verdicts[i] = st.verdict(e)
		}
		if !repeated && verdicts[i] == nil {
			again = append(again, i)
		}
	}
	return again, err
}

// writes adds the statements of an entry. The last one is read by read.
func (f *front) writes(calls []call, e *workflow.Entry, read func(pgx.Rows) error) []call {
	steps := e.Steps
	for len(steps) > mostRows {
		before := workflow.Entry{Run: e.Run, Fence: e.Fence, Mail: e.Mail, Next: e.Next}
		if e.Next != workflow.Record {
			before.Next = workflow.Stay
		}
		calls = append(calls, f.writesRows(&before, steps[:mostRows], each(func() {}, nil, nil)))
		steps = steps[mostRows:]
	}
	return append(calls, f.writesRows(e, steps, read))
}

// mostRows is how many outcomes one statement adds at most.
const mostRows = 64

// A form tells statements of entries apart. Each is prepared for itself.
type form struct {
	next     workflow.Next
	rows     int
	taking   bool
	counting bool
}

// writesRows is the statement of an entry with these outcomes.
func (f *front) writesRows(e *workflow.Entry, steps []workflow.Step, read func(pgx.Rows) error) call {
	taking := false
	args := next(e)
	before := len(args)
	for i := range steps {
		st := &steps[i]
		outcome := st.Outcome
		if e.Next == workflow.Record {
			outcome = workflow.Late
		}
		taking = taking || st.Signal != "" && e.Next != workflow.Record
		args = append(args, st.Name, st.Index, string(st.Kind), string(outcome), document(st.Output), st.Error,
			st.Attempts, microseconds(st.For), timeOrNil(st.Until), st.Signal, st.Took.Microseconds())
	}
	return call{f.text(form{e.Next, len(steps), taking, f.counting}, before), args, read}
}

// next are the arguments of an entry, but for its outcomes.
func next(e *workflow.Entry) []any {
	if e.Next == workflow.Record {
		return []any{e.Run}
	}
	args := []any{e.Run, e.Fence.Epoch, e.Fence.Nonce, e.Mail}
	switch e.Next {
	case workflow.Park:
		args = append(args, timeOrNil(e.Due), microseconds(e.After), e.Event, document(e.Match))
	case workflow.End:
		output := document(e.Output)
		if e.Status == workflow.Completed {
			output = new(orNull(e.Output))
		}
		args = append(args, string(e.Status), output, e.Error)
	case workflow.Stop:
		args = append(args, string(e.Held), e.Error)
	}
	return args
}

// text returns the statement of a form, whose outcomes come after so many parameters.
func (f *front) text(of form, before int) string {
	if text, ok := f.texts.Load(of); ok {
		return text.(string)
	}
	text := map[workflow.Next]string{
		workflow.Stay: f.sql.stay, workflow.Park: f.sql.park, workflow.End: f.sql.end, workflow.Stop: f.sql.stop,
		workflow.Record: f.sql.record,
	}[of.next]
	steps, returning, wrote := "", "", "0::bigint"
	if of.rows > 0 {
		steps = strings.Replace(addSteps, "{rows}", rowsAfter(before, of.rows), 1)
	}
	if of.taking || of.counting {
		returning = "RETURNING o.name, o.signal"
	}
	if of.counting && of.rows > 0 {
		wrote = "(SELECT count(*) FROM s)"
	}
	if of.taking {
		steps += take
	}
	steps = strings.Replace(steps, "{returning}", returning, 1)
	text = strings.NewReplacer("{steps}", names(f.db).Replace(steps), "{wrote}", wrote).Replace(text)
	f.texts.Store(of, text)
	return text
}

// columnTypes are the types of the parameters of an outcome.
var columnTypes = []string{
	"text", "integer", "text", "text", "jsonb", "text", "integer", "bigint", "timestamptz", "text", "bigint",
}

// rowsAfter returns the rows of the parameters of n outcomes.
func rowsAfter(before, n int) string {
	rows := make([]string, n)
	for i := range rows {
		columns := make([]string, len(columnTypes))
		for j, t := range columnTypes {
			before++
			columns[j] = fmt.Sprintf("$%d::%s", before, t)
		}
		rows[i] = "(" + strings.Join(columns, ", ") + ")"
	}
	return strings.Join(rows, ", ")
}

// microseconds returns nil for 0. Any other time is one, if only of no microseconds.
func microseconds(d time.Duration) *int64 {
	if d == 0 {
		return nil
	}
	return new(d.Microseconds())
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// A state is of a run what decides on an entry.
type state struct {
	status workflow.Status
	owner  string
	fence  lock.Fence
	mail   int64
}

func (s *state) verdict(e *workflow.Entry) (repeated bool, err error) {
	return e.Verdict(s.status, s.owner, s.fence, s.mail)
}

// why returns the states of runs. What it tells is durable.
func (f *front) why(ctx context.Context, runs []string) (found map[string]state, err error) {
	var id string
	var st state
	read := each(func() { found[id] = st },
		&id, (*string)(&st.status), &st.owner, &st.fence.Epoch, &st.fence.Nonce, &st.mail, nil)
	err = f.db.Answered(ctx, func() error {
		found = make(map[string]state, len(runs))
		return f.pipe(ctx, []call{{f.sql.why, []any{runs}, read}})
	})
	return found, err
}
