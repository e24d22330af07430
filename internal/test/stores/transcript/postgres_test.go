package transcript_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgtranscript"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
)

var onPostgres = pgtest.Kind[transcript.Store]{
	New: func(db pgtest.DB, prefix string) transcript.Store {
		return pgtranscript.New(db, &pgtranscript.Options{Prefix: prefix})
	},
	Suite: transcripttest.Run, Violations: transcripttest.Violations,
	Fill:  func(t *testing.T, s transcript.Store) { say(t, s, "s", "kept", "too") },
	Read:  func(t *testing.T, s transcript.Store) string { return heard(t, s, "s") },
	Calls: calls, Writes: []string{"Append", "Copy", "Trim", "Trim of all", "Raise"},
	Tables: []string{"transcripts", "messages"}, Schema: transcript.ErrSchema, Refused: transcript.ErrRefused,
}

func TestPostgresIsolation(t *testing.T) { onPostgres.TestIsolation(t) }

func TestPostgresBehind(t *testing.T) { onPostgres.TestBehind(t) }

func TestPostgresPgBouncer(t *testing.T) { onPostgres.TestPgBouncer(t) }

func TestPostgresQualified(t *testing.T) { onPostgres.TestQualified(t) }

func TestPostgresPrefix(t *testing.T) { onPostgres.TestPrefix(t) }

func TestPostgresEncoding(t *testing.T) { onPostgres.TestEncoding(t) }

func TestPostgresSchemaMissing(t *testing.T) { onPostgres.TestSchemaMissing(t) }

func TestPostgresSchemaAgain(t *testing.T) { onPostgres.TestSchemaAgain(t) }

func TestPostgresReadOnly(t *testing.T) { onPostgres.TestReadOnly(t) }

func TestPostgresUnreachable(t *testing.T) {
	t.Parallel()
	onPostgres.TestUnreachable(t, transcripttest.RunUnreachable)
}

func TestGrantsSuffice(t *testing.T) { onPostgres.TestGrantsSuffice(t) }

func TestGrantsNeedAll(t *testing.T) { onPostgres.TestGrantsNeedAll(t) }

// meet makes owners append to a few sessions at once, which are copied to each other and deleted meanwhile. It counts
// the errors, the entries that have a number in common, and those beyond the newest number of their session.
func meet(t *testing.T, p *pgxpool.Pool, s transcript.Store) int64 {
	t.Helper()
	session := func(i int) transcript.Key { return key(fmt.Sprint(i % 3)) }
	var faults atomic.Int64
	note := func(err error) {
		if err != nil && !errors.Is(err, transcript.ErrTaken) {
			faults.Add(1)
		}
	}
	var acts []func()
	for owner := range 6 {
		acts = append(acts, func() {
			for i := range 40 {
				if (i+owner)%3 == 0 {
					spans := []transcript.Span{span(3, 5), span(9, 9+int64(i))}
					note(s.Copy(t.Context(), session(i), session(i+1), spans))
				}
				if (i+owner)%7 == 0 {
					_, err := s.Trim(t.Context(), session(i), nil, time.Time{})
					note(err)
				}
				_, err := s.Append(t.Context(), session(i), fmt.Sprint(owner, i), messages(1+owner%3))
				note(err)
			}
		})
	}
	suite.Together(acts...)
	return faults.Load() + pgtest.Value[int64](t, p, `
		SELECT (SELECT count(*) FROM holdfast_messages a JOIN holdfast_messages b USING (orchestrator, session)
				WHERE a.first < b.first AND a.last >= b.first)
			+ (SELECT count(*) FROM holdfast_messages m LEFT JOIN holdfast_transcripts t USING (orchestrator, session)
				WHERE coalesce(t.last, 0) < m.last)`)
}

// If an owner appends while the session gets a copy, or while all is deleted, the one comes after the other. The
// primary key alone would not see that entries overlap which begin at other numbers.
func TestPostgresMeet(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	if n := meet(t, p, onPostgres.On(t, p, "")); n > 0 {
		t.Errorf("%d faults", n)
	}
	for range 20 {
		p := pgtest.EmptyPool(t)
		onPostgres.On(t, p, "")
		hasty := pgtest.Tamper(p, "DO UPDATE SET last = t.last\n", "DO NOTHING\n")
		if meet(t, p, onPostgres.New(hasty, "")) > 0 {
			return
		}
	}
	t.Error("a store is accepted whose writers do not wait")
}

func messages(n int) (all []message.Message) {
	for i := range n {
		all = append(all, message.User(fmt.Sprint(i)))
	}
	return all
}
