package pgsnapshot

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-go/holdfast/snapshot"
)

// A row is the run in flight, or the row that the last deleted run has left.
type row struct {
	snapshot.Run
	inFlight bool
	parted   bool // has parts, or had some
	endless  bool // one of its times is infinite
	unread   error
}

var errEndless = errors.New("one of its times is infinite")

// intact returns a *snapshot.DamagedError if no store wrote the run, or if the server cannot read it. intact does not
// judge the documents, because PostgreSQL has.
func (r *row) intact() error {
	switch {
	case r.unread != nil:
		return snapshot.Damaged(r.Key, r.unread)
	case r.endless:
		return snapshot.Damaged(r.Key, errEndless)
	}
	bare := r.Run
	bare.Payload, bare.Parts = nil, nil
	return bare.Intact()
}

func scan(from pgx.CollectableRow) (r row, err error) { return scanInto(from, nil) }

// scanListed is scan for a list, which also tells the age.
func scanListed(from pgx.CollectableRow) (r row, err error) {
	var age int64
	r, err = scanInto(from, &age)
	r.Age = time.Duration(max(0, age)) * time.Microsecond
	return r, err
}

// scanInto reads columns into a row, and the columns after them into more.
func scanInto(from pgx.CollectableRow, more ...any) (r row, err error) {
	var notBefore, started, saved pgtype.Timestamptz
	var left int64
	err = from.Scan(append([]any{
		&r.Orchestrator, &r.Session, &r.ID, &r.RequestID, &r.Turn, &r.Attempt, &r.Base, (*string)(&r.Status),
		&r.Seq, &r.Fence.Epoch, &r.Fence.Nonce, (*[]byte)(&r.Payload), &r.Error, &notBefore, &started, &saved,
		&left, &r.inFlight, &r.parted,
	}, more...)...)
	for _, t := range []pgtype.Timestamptz{notBefore, started, saved} {
		r.endless = r.endless || t.InfinityModifier != pgtype.Finite
	}
	r.StartedAt, r.SavedAt = started.Time.UTC(), saved.Time.UTC()
	if notBefore.Valid {
		r.NotBefore, r.Pause = notBefore.Time.UTC(), time.Duration(max(0, left))*time.Microsecond
	}
	return r, err
}

// document returns the payload as text, which every mode of the driver sends alike; nil if there is no payload.
func document(r snapshot.Run) *string {
	if len(r.Payload) == 0 {
		return nil
	}
	text := string(r.Payload)
	return &text
}

// microseconds rounds up: a pause that is shorter than the clock's step is still a pause.
func microseconds(d time.Duration) int64 { return (d + time.Microsecond - 1).Microseconds() }
