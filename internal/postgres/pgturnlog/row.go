package pgturnlog

import (
	"cmp"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-go/holdfast/turnlog"
)

// An entryRow is an entry as it is stored.
type entryRow struct {
	turnlog.Entry
	unread error // why the server cannot read the state, or what is wrong with the time or the row of the run
}

var (
	errNoRun   = errors.New("the row of the run is missing")
	errEndless = errors.New("one of its times is infinite")
)

// intact returns a *turnlog.DamagedError if no log wrote the entry, or if the server cannot read it.
func (r entryRow) intact() error {
	if r.unread != nil {
		return turnlog.Damaged(r.Run, r.unread)
	}
	return r.Intact()
}

// scanEntries returns what reads the entries of a run. Most of their texts are those of the entry before, and are kept
// once.
func scanEntries(run string) pgx.RowToFunc[entryRow] {
	known := make(map[string]string)
	text := func(b pgtype.DriverBytes) string {
		s, ok := known[string(b)]
		if !ok {
			s = string(b)
			known[s] = s
		}
		return s
	}
	return func(from pgx.CollectableRow) (r entryRow, err error) {
		var phase, orchestrator, session pgtype.DriverBytes
		var turn *int
		var at pgtype.Timestamptz
		if err := from.Scan(&at, &phase, (*[]byte)(&r.State), &orchestrator, &session, &turn); err != nil {
			return r, err
		}
		r.Run, r.At, r.Phase = run, at.Time.UTC(), text(phase)
		if orchestrator == nil || session == nil || turn == nil {
			r.unread = errNoRun
			return r, nil
		}
		r.Orchestrator, r.Session, r.Turn = text(orchestrator), text(session), *turn
		if at.InfinityModifier != pgtype.Finite {
			r.unread = errEndless
		}
		return r, nil
	}
}

// A turnRow is a turn as it is stored.
type turnRow struct {
	turnlog.Summary
	begins  pgtype.Timestamptz // as the row of the run says, which the list is in the order of; it may be infinite
	endless bool               // one of the times is infinite
	unread  error              // why the server cannot read the states
}

var (
	errNoEntries = errors.New("the row of a run without entries")
	errFirst     = errors.New("the row of the run does not begin with the first entry")
)

// intact returns a *turnlog.DamagedError if no log wrote the turn, or if the server cannot read it.
func (r turnRow) intact() error {
	first := entryRow{r.First, r.unread}
	switch {
	case r.unread == nil && r.First.Phase == "" && r.First.At.IsZero():
		first.unread = errNoEntries
	case r.unread == nil && r.endless:
		first.unread = errEndless
	case r.unread == nil && !r.begins.Time.Equal(r.First.At):
		first.unread = errFirst
	}
	return cmp.Or(first.intact(), entryRow{r.Last, r.unread}.intact())
}

func scanTurn(from pgx.CollectableRow) (r turnRow, err error) {
	var first, last pgtype.Timestamptz
	var firstPhase, lastPhase *string
	err = from.Scan(&r.First.Run, &r.First.Orchestrator, &r.First.Session, &r.First.Turn, &r.begins,
		&first, &firstPhase, (*[]byte)(&r.First.State), &last, &lastPhase, (*[]byte)(&r.Last.State))
	r.Last.Run, r.Last.Orchestrator, r.Last.Session = r.First.Run, r.First.Orchestrator, r.First.Session
	r.Last.Turn = r.First.Turn
	if first.Valid && last.Valid {
		r.First.At, r.First.Phase, r.Last.At, r.Last.Phase = first.Time.UTC(), *firstPhase, last.Time.UTC(), *lastPhase
	}
	for _, t := range []pgtype.Timestamptz{r.begins, first, last} {
		r.endless = r.endless || t.InfinityModifier != pgtype.Finite
	}
	return r, err
}
