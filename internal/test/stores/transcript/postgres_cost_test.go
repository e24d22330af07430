package transcript_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/transcript"
)

// The test counts at the server what each call costs.
func TestPostgresStatements(t *testing.T) {
	t.Parallel()
	server, _, s := onPostgres.Private(t, &testenv.Options{Count: true})
	appends := func(id string) func() error {
		return func() error { _, err := s.Append(t.Context(), key("s"), id, messages(2)); return err }
	}
	reads := func(spans ...transcript.Span) func() error {
		return func() error { _, err := read(t.Context(), s, "s", spans...); return err }
	}
	copies := func(spans ...transcript.Span) func() error {
		return func() error { return s.Copy(t.Context(), key("s"), key("t"), spans) }
	}
	trims := func(before time.Time, spans ...transcript.Span) func() error {
		return func() error { _, err := s.Trim(t.Context(), key("s"), spans, before); return err }
	}
	cost := pgtest.Costs(t, server)
	cost("first call of a store", 2, appends("a"))
	cost("an entry", 1, appends("b"))
	cost("an entry once more", 1, appends("a"))
	cost("a span", 1, reads(span(1, 4)))
	cost("two spans", 2, reads(span(1, 1), span(4, 4)))
	cost("a copy", 3, copies(span(1, 1), span(3, 4)))
	cost("a copy once more", 3, copies(span(1, 4)))
	cost("a trim", 3, trims(time.Now(), span(1, 1)))
	cost("a trim of all", 3, trims(time.Time{}))
}

// What a call costs does not depend on how many entries there are beside those that it is about. PostgreSQL need not
// have statistics.
func TestPostgresManyEntries(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := onPostgres.On(t, p, "")
	// As the store would have added them: one long session, and many short ones.
	pgtest.Exec(t, p, `
		INSERT INTO holdfast_messages (orchestrator, session, first, last, id, at, body)
		SELECT 'bot', 's', 2 * i - 1, 2 * i, 'id' || i, '2020-01-01Z'::timestamptz, '[{"role":"user"},{"role":"user"}]'
		FROM generate_series(1, 25000) i
		UNION ALL SELECT 'bot', 's' || i / 10, 2 * (i % 10) + 1, 2 * (i % 10) + 2, 'id' || i % 10, '2020-01-01Z'::timestamptz,
			'[{"role":"user"},{"role":"user"}]'
		FROM generate_series(0, 24999) i;
		INSERT INTO holdfast_transcripts (orchestrator, session, last)
		SELECT orchestrator, session, max(last) FROM holdfast_messages GROUP BY 1, 2`)
	appends := func(session, id string) {
		_, err := s.Append(t.Context(), key(session), id, messages(1))
		check(t, err)
	}
	reads := func(session string, spans ...transcript.Span) func(int) {
		return func(int) {
			for _, err := range s.Read(t.Context(), key(session), spans) {
				_ = err // bodies are short
			}
		}
	}
	copies := func(from, to string, spans ...transcript.Span) {
		check(t, s.Copy(t.Context(), key(from), key(to), spans))
	}
	pgtest.Blocks(t, server, p, 150, func(known string) map[string]func(n int) {
		return map[string]func(n int){
			"append":                 func(n int) { appends("s", fmt.Sprint("new", n, known)) },
			"append to a new":        func(n int) { appends(fmt.Sprint("new", n, known), "id") },
			"append once more":       func(int) { appends("s", "id7") },
			"a page":                 reads("s", span(20001, 20040)),
			"an entry":               reads("s", span(40000, 40000)),
			"a short session":        reads("s4000", span(1, 20)),
			"nothing":                reads("s4000", span(21, 5000)),
			"copy to a new":          func(n int) { copies("s", fmt.Sprint("copy", n, known), span(30001, 30002), span(2, 2)) },
			"copy of a short":        func(n int) { copies("s77", fmt.Sprint("short", n, known), span(1, 20)) },
			"copy once more":         func(int) { copies("s", "copy0"+known, span(30001, 30002), span(2, 2)) },
			"trim of a short":        func(n int) { trim(t, s, fmt.Sprint("s5", n), time.Now(), span(1, 1)) },
			"trim of all of a short": func(n int) { trim(t, s, fmt.Sprint("s6", n), time.Time{}) },
		}
	})
}

// If a session had hardly an entry when the statistics were gathered, no call about a few entries walks all that it has
// now.
func TestPostgresStaleStatistics(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := onPostgres.On(t, p, "")
	say(t, s, "s", "a", "b")
	for i := range 200 {
		say(t, s, fmt.Sprint("other", i), "a")
	}
	pgtest.Exec(t, p, "VACUUM (ANALYZE) holdfast_messages, holdfast_transcripts")
	pgtest.Exec(t, p, `
		INSERT INTO holdfast_messages (orchestrator, session, first, last, id, at, body)
		SELECT 'bot', 's', i, i, 'id' || i, '2020-01-01Z', '[{"role":"user"}]' FROM generate_series(3, 20000) i`)
	pgtest.Exec(t, p, "UPDATE holdfast_transcripts SET last = 20000 WHERE session = 's'")
	for what, call := range map[string]func(n int) error{
		"append": func(n int) error {
			_, err := s.Append(t.Context(), key("s"), fmt.Sprint("new", n), messages(1))
			return err
		},
		"append once": func(int) error { _, err := s.Append(t.Context(), key("s"), "id700", messages(1)); return err },
		"read":        func(int) error { return yielded(s, "s", span(15_001, 15_020)) },
		"copy": func(n int) error {
			to := key(fmt.Sprint("copy", n))
			return s.Copy(t.Context(), key("s"), to, []transcript.Span{span(7, 7), span(19_001, 19_020)})
		},
		"trim of a short": func(n int) error { trim(t, s, fmt.Sprint("other", n), zero); return nil },
	} {
		check(t, call(0))
		before := server.Blocks()
		check(t, call(1))
		if blocks := server.Blocks() - before; blocks > 250 {
			t.Errorf("%s touches %d blocks", what, blocks)
		}
	}
}

// yielded reads spans whose messages need not be readable.
func yielded(s transcript.Store, session string, spans ...transcript.Span) error {
	for _, err := range s.Read(context.Background(), key(session), spans) {
		if err != nil && !isDamage(err) {
			return err
		}
	}
	return nil
}

// A page ends at some bytes: entries may be large.
func TestPostgresLargeEntries(t *testing.T) {
	t.Parallel()
	server, p, s := onPostgres.Private(t, &testenv.Options{Count: true})
	say(t, s, "s", "large a", "large b", "large c", "large d", "large e")
	pgtest.Exec(t, p, `UPDATE holdfast_messages SET body = replace(body, id, repeat('x', 3 << 20))`)
	pgtest.Statements(t, server, "five entries of 3 MiB", 3, func() error {
		all, err := read(t.Context(), s, "s", span(1, 5))
		for _, text := range all {
			if len(text) != 3<<20 {
				t.Errorf("a message has %d bytes", len(text))
			}
		}
		if len(all) != 5 {
			t.Errorf("%d messages", len(all))
		}
		return err
	})
}

func trim(t *testing.T, s transcript.Store, session string, before time.Time, spans ...transcript.Span) int {
	t.Helper()
	n, err := s.Trim(t.Context(), key(session), spans, before)
	check(t, err)
	return n
}

// As many spans as a call may have, and as many entries, do not make a product. It would take ten times as long as a
// copy of all by one span, or longer.
func TestPostgresManySpans(t *testing.T) {
	t.Parallel()
	_, p, s := onPostgres.Private(t, nil)
	const entries = 10000
	pgtest.Exec(t, p, fmt.Sprintf(`
		INSERT INTO holdfast_messages (orchestrator, session, first, last, id, at, body)
		SELECT 'bot', 's', i, i, 'id' || i, '2020-01-01Z', '[{"role":"user"}]' FROM generate_series(1, %d) i;
		INSERT INTO holdfast_transcripts VALUES ('bot', 's', %[1]d)`, entries))
	var spans []transcript.Span // of each second entry
	for i := range int64(transcript.MaxSpans) {
		spans = append(spans, span(2*i+1, 2*i+1))
	}
	copies := func(to string, spans ...transcript.Span) func() {
		return func() { check(t, s.Copy(t.Context(), key("s"), key(to), spans)) }
	}
	most := 5 * took(t, "copy by one span", copies("all", span(1, entries)))
	for what, call := range map[string]func(){
		"copy": copies("t", spans...), "copy of what is there": copies("all", spans...),
		"trim": func() {
			if n := trim(t, s, "all", time.Now().Add(time.Hour), spans...); n != entries-transcript.MaxSpans-1 {
				t.Errorf("%d deleted", n)
			}
		},
	} {
		if d := took(t, what, call); d > most {
			t.Errorf("%s takes %v", what, d)
		}
	}
	if n := pgtest.Value[int](t, p, "SELECT count(*) FROM holdfast_messages WHERE session = 't'"); n != len(spans) {
		t.Errorf("%d copied", n)
	}
}

func took(t *testing.T, what string, call func()) time.Duration {
	t.Helper()
	begin := time.Now()
	call()
	d := time.Since(begin)
	t.Logf("%s: %v", what, d)
	return d
}

// If the server does not wait for its disk by default, Append, Copy and Trim do.
func TestPostgresDurable(t *testing.T) {
	t.Parallel()
	_, p, s := onPostgres.Private(t, &testenv.Options{Settings: pgtest.Lazy()})
	pgtest.Durable(t, p, func(n int, call func(what string, do func() error)) {
		k, to := key(fmt.Sprint("s", n)), key(fmt.Sprint("t", n))
		for _, what := range []string{"Append", "Append of what is known"} {
			call(what, func() error { _, err := s.Append(t.Context(), k, "a", messages(1)); return err })
		}
		say(t, s, k.Session, "b")
		for _, what := range []string{"Copy", "Copy of what is there"} {
			call(what, func() error { return s.Copy(t.Context(), k, to, []transcript.Span{span(1, 2)}) })
		}
		for _, what := range []string{"Trim", "Trim of nothing"} {
			call(what, func() error { _, err := s.Trim(t.Context(), k, nil, time.Now()); return err })
			call(what+" of all", func() error { _, err := s.Trim(t.Context(), to, nil, time.Time{}); return err })
		}
	})
}
