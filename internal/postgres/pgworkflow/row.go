package pgworkflow

import (
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-go/holdfast/workflow"
)

// A row is a run as it is stored.
type row struct {
	workflow.Run
	started, completed, due, since pgtype.Timestamptz // they may be infinite
	unread                         error              // why the server cannot read the documents
}

var errEndless = errors.New("one of its times is infinite")

// into are what the columns of a run are scanned to.
func (r *row) into() []any {
	return []any{
		&r.ID, &r.Workflow, &r.Version, (*string)(&r.Status), (*string)(&r.Hold), &r.Error, &r.Key, &r.RetentionDays,
		&r.started, &r.completed, &r.due, &r.Owner, &r.Event, &r.Parent, &r.since, (*[]byte)(&r.Input),
		(*[]byte)(&r.Output),
	}
}

// fill sets the times. NULL and an infinite time become the zero time.
func (r *row) fill() {
	r.Started, r.Completed, r.Due = r.started.Time.UTC(), r.completed.Time.UTC(), r.due.Time.UTC()
}

func scan(from pgx.CollectableRow) (r row, err error) {
	err = from.Scan(append(r.into(), &r.Group)...)
	r.fill()
	return r, err
}

// intact returns a *workflow.DamagedError if no store wrote the run, or if the server cannot read it. PostgreSQL has
// judged the documents.
func (r *row) intact() error {
	if r.unread != nil {
		return workflow.Damaged(r.ID, r.unread)
	}
	if endless(r.started, r.completed, r.due, r.since) {
		return workflow.Damaged(r.ID, errEndless)
	}
	run := r.Run
	run.Input, run.Output = json.RawMessage("{}"), nil
	return run.Intact()
}

func endless(times ...pgtype.Timestamptz) bool {
	for _, t := range times {
		if t.InfinityModifier != pgtype.Finite {
			return true
		}
	}
	return false
}

// A stepRow is a step, or a signal, as it is stored.
type stepRow struct {
	workflow.Step
	endless bool
	unread  error
}

func scanStep(from pgx.CollectableRow) (s stepRow, err error) {
	var until, started, completed pgtype.Timestamptz
	err = from.Scan(&s.Name, &s.Index, (*string)(&s.Kind), (*string)(&s.Outcome), &s.Error, &s.Attempts, &until,
		&s.Signal, &started, &completed, (*[]byte)(&s.Output))
	s.endless = endless(until, started, completed)
	s.Until, s.Started, s.Completed = until.Time.UTC(), started.Time.UTC(), completed.Time.UTC()
	return s, err
}

// intact is like that of a row.
func (s *stepRow) intact(run string) error {
	if s.unread != nil {
		return workflow.DamagedStep(run, s.Name, s.unread)
	}
	if s.endless {
		return workflow.DamagedStep(run, s.Name, errEndless)
	}
	step := s.Step
	step.Output = nil
	return step.Intact(run)
}

// scanDocument reads one document.
func scanDocument(from pgx.CollectableRow) (doc json.RawMessage, err error) {
	err = from.Scan((*[]byte)(&doc))
	return doc, err
}
