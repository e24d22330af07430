package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/transcript"
)

// damaged reads a session, in which the damaged entries are told by their numbers.
func damaged(t *testing.T, s transcript.Store, through int64) string {
	t.Helper()
	var all []string
	for m, err := range s.Read(t.Context(), key("s"), []transcript.Span{span(1, through)}) {
		if d, is := errors.AsType[*transcript.DamagedError](err); is && d.Key == key("s") && d.What == "messages" {
			all = append(all, "!"+d.ID)
		} else {
			check(t, err)
			all = append(all, m.Blocks[0].Text)
		}
	}
	return strings.Join(all, " ")
}

// An entry that no store wrote is damaged, and no other is. Copy and Trim go on.
func TestPostgresDamaged(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := onPostgres.On(t, p, "")
	for set, want := range map[string]string{
		"body = ''": "a !2 c", "body = '['": "a !2 c", "body = '[]'": "a !2 c", "body = 'null'": "a !2 c",
		"body = '[{}]'": "a !2 c", "body = repeat('[', 20000)": "a !2 c",
		"body = '[' || substr(body, 2, length(body) - 2) || ',' || substr(body, 2)": "a !2 c",
		"last = 1": "a !2 !2 c", "last = 3": "a !2 to 3", "first = 7, last = 7": "a !2 c",
		"at = 'infinity'": "a b c", "at = '-infinity'": "a b c", "id = repeat('x', 600)": "a b c",
	} {
		t.Run(set, func(t *testing.T) {
			pgtest.Clear(t, p)
			say(t, s, "s", "a", "b", "c")
			pgtest.Exec(t, p, "UPDATE holdfast_messages SET "+set+" WHERE id = 'b'")
			if got := damaged(t, s, 3); got != want {
				t.Errorf("read %q, want %q", got, want)
			}
			check(t, s.Copy(t.Context(), key("s"), key("t"), []transcript.Span{span(1, 1), span(3, 3)}))
			_, err := s.Trim(t.Context(), key("s"), nil, time.Time{})
			check(t, err)
			say(t, s, "s", "a")
		})
	}
}

// If the newest number of a session is lost, or is too low, nothing is overwritten and no number is given twice. Trim of
// all repairs it.
func TestPostgresDamagedNumber(t *testing.T) {
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
			if d, is := errors.AsType[*transcript.DamagedError](err); !is || d.Key != key("s") || d.What != "transcript" {
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

// torn returns a store whose entries lie outside of their rows, and a function that takes a block of one away.
func torn(t *testing.T, p *pgxpool.Pool, prefix string) (s transcript.Store, tear func(id string)) {
	t.Helper()
	s = onPostgres.On(t, p, prefix)
	pgtest.Exec(t, p, "ALTER TABLE "+prefix+"messages ALTER COLUMN body SET STORAGE EXTERNAL")
	return s, func(id string) {
		pgtest.Exec(t, p, fmt.Sprintf("UPDATE %smessages SET body = repeat('x', 10000) WHERE id = '%s'", prefix, id))
		check(t, testenv.LoseChunk(context.WithoutCancel(t.Context()), p, prefix+"messages"))
	}
}

// An entry whose body the server itself cannot read is damaged, and no other is. A copy of the entry is ErrDamaged and
// copies nothing. A copy of the others passes, and so does Trim.
func TestPostgresLostChunk(t *testing.T) {
	t.Parallel()
	_, p, _ := onPostgres.Private(t, nil)
	s, tear := torn(t, p, "torn_")
	say(t, s, "s", "a", "b", "c", "d")
	tear("b")
	if got := damaged(t, s, 4); got != "a !2 c d" {
		t.Errorf("read %q", got)
	}
	if said := say(t, s, "s", "b"); said != span(2, 2) {
		t.Errorf("the entry is at %v", said)
	}
	if err := s.Copy(t.Context(), key("s"), key("t"), []transcript.Span{span(1, 4)}); !errors.Is(err, transcript.ErrDamaged) {
		t.Errorf("copy: %v", err)
	}
	if got := heard(t, s, "t"); got != "" {
		t.Errorf("copied %q", got)
	}
	check(t, s.Copy(t.Context(), key("s"), key("t"), []transcript.Span{span(1, 1), span(3, 4)}))
	if n := trim(t, s, "s", time.Now().Add(time.Hour), span(3, 3)); n != 2 {
		t.Errorf("%d deleted", n)
	}
	if got := damaged(t, s, 4); got != "!1 to 2 c d" {
		t.Errorf("read %q", got)
	}
}

// An entry that is deleted while a page is read one by one is told as missing, and the pages after it come.
func TestPostgresTrimmedBesideDamage(t *testing.T) {
	t.Parallel()
	_, p, _ := onPostgres.Private(t, nil)
	s, tear := torn(t, p, "torn_")
	const n = 200
	for i := range n {
		say(t, s, "s", fmt.Sprintf("q%03d", i+1))
	}
	tear("q002")
	seen, missing := 0, 0
	for m, err := range s.Read(t.Context(), key("s"), []transcript.Span{span(1, n)}) {
		if seen++; errors.Is(err, transcript.ErrDamaged) {
			missing++
		} else if check(t, err); m.Blocks[0].Text == "q050" {
			trim(t, s, "s", time.Now().Add(time.Hour), span(1, 119), span(121, n))
		}
	}
	if seen != n || missing != 2 {
		t.Errorf("%d messages, of which %d are damaged", seen, missing)
	}
}
