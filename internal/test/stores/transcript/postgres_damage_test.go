package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
)

// spoiledRows damages an entry by a statement on the rows of a table.
type spoiledRows struct {
	transcript.Store
	p     *pgxpool.Pool
	table string
	set   string
}

func (s spoiledRows) Damage(ctx context.Context, k transcript.Key, said transcript.Span) error {
	_, err := s.p.Exec(ctx, "UPDATE "+s.table+" SET "+s.set+" WHERE orchestrator = $1 AND session = $2 AND first = $3",
		k.Orchestrator, k.Session, said.From)
	return err
}

func TestPostgresDamaged(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"body = ''", "body = '['", "body = '[]'", "body = 'null'", "body = '{}'", "body = '[1, 2, 3]'",
		"body = repeat('[', 20000)", "body = left(body, -1) || ', ' || substr(body, 2)",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t)
			s := onPostgres.On(t, p, "")
			transcripttest.RunDamaged(t, func(t *testing.T) transcripttest.DamagingStore {
				pgtest.Clear(t, p)
				return spoiledRows{s, p, "holdfast_messages", set}
			})
		})
	}
}

// torn damages an entry by taking a block of its body away.
type torn struct{ spoiledRows }

func (s torn) Damage(ctx context.Context, k transcript.Key, said transcript.Span) error {
	return errors.Join(s.spoiledRows.Damage(ctx, k, said), testenv.LoseChunk(ctx, s.p, s.table))
}

// openTorn returns a store whose long bodies lie outside of their rows.
func openTorn(t *testing.T, p *pgxpool.Pool, prefix string) torn {
	t.Helper()
	s := onPostgres.On(t, p, prefix)
	pgtest.Exec(t, p, "ALTER TABLE "+prefix+"messages ALTER COLUMN body SET STORAGE EXTERNAL")
	return torn{spoiledRows{s, p, prefix + "messages", "body = repeat('x', 10000)"}}
}

// An entry whose body the server itself cannot read is damaged, as is an entry that no store wrote.
func TestPostgresLostChunk(t *testing.T) {
	t.Parallel()
	_, p, _ := onPostgres.Private(t, nil)
	n := 0
	transcripttest.RunDamaged(t, func(t *testing.T) transcripttest.DamagingStore {
		n++
		return openTorn(t, p, fmt.Sprintf("torn%d_", n))
	})
}

// An entry that is deleted while a page is read one by one is told as missing, and the pages after it come.
func TestPostgresTrimmedBesideDamage(t *testing.T) {
	t.Parallel()
	_, p, _ := onPostgres.Private(t, nil)
	s := openTorn(t, p, "torn_")
	const n = 200
	for i := range n {
		say(t, s, "s", fmt.Sprintf("q%03d", i+1))
	}
	check(t, s.Damage(t.Context(), key("s"), span(2, 2)))
	check(t, s.Damage(t.Context(), key("s"), span(100, 100)))
	seen, missing := 0, 0
	for m, err := range s.Read(t.Context(), key("s"), []transcript.Span{span(1, n)}) {
		if seen++; errors.Is(err, transcript.ErrDamaged) {
			missing++
		} else if check(t, err); m.Blocks[0].Text == "q050" {
			trim(t, s, "s", time.Now().Add(time.Hour), span(1, 119), span(121, n))
		}
	}
	if seen != n || missing != 3 {
		t.Errorf("%d messages, of which %d are damaged", seen, missing)
	}
}

// A Read ends, and goes on behind, whatever the numbers of an entry are.
func TestPostgresDamagedNumbers(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := onPostgres.On(t, p, "")
	for _, set := range []string{
		"last = 1", "last = 0", "last = 3", "last = 900", "first = 7, last = 7", "first = -5",
	} {
		t.Run(set, func(t *testing.T) {
			pgtest.Clear(t, p)
			say(t, s, "s", "a", "b", "c", "d")
			pgtest.Exec(t, p, "UPDATE holdfast_messages SET "+set+" WHERE id = 'b'")
			damaged := 0
			for _, err := range s.Read(t.Context(), key("s"), []transcript.Span{span(1, 3), span(4, 4)}) {
				if errors.Is(err, transcript.ErrDamaged) {
					damaged++
				} else {
					check(t, err)
				}
			}
			if damaged == 0 {
				t.Error("nothing is damaged")
			}
			trim(t, s, "s", time.Time{})
			if said := say(t, s, "s", "a"); said != span(1, 1) {
				t.Errorf("the first message is %v", said)
			}
		})
	}
}

// If the newest number of a session is lost, or is too low, nothing is overwritten and no number is given twice. Trim
// of all repairs it.
func TestPostgresDamagedNewest(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := onPostgres.On(t, p, "")
	for name, spoil := range map[string]string{
		"lost": "DELETE FROM holdfast_transcripts", "too low": "UPDATE holdfast_transcripts SET last = 1",
	} {
		t.Run(name, func(t *testing.T) {
			pgtest.Clear(t, p)
			say(t, s, "s", "a", "b", "c")
			pgtest.Exec(t, p, spoil)
			_, err := s.Append(t.Context(), key("s"), "d", messages(1))
			d, is := errors.AsType[*transcript.DamagedError](err)
			if !is || d.Key != key("s") || d.What != "transcript" {
				t.Errorf("got %v", err)
			}
			if got := heard(t, s, "s"); got != "a b c" {
				t.Errorf("read %q", got)
			}
			trim(t, s, "s", time.Time{})
			if said := say(t, s, "s", "d"); said != span(1, 1) {
				t.Errorf("the next is %v", said)
			}
		})
	}
}
