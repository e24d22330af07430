package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitetranscript"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
)

var spoken = contract{
	name: "transcript",
	open: func(db *sql.DB, o options) subject {
		return saidStore{sqlitetranscript.New(db, &sqlitetranscript.Options{Prefix: o.prefix})}
	},
	tables:   []string{"holdfast_messages", "holdfast_message_raises"},
	longest:  "message_raises",
	verdicts: []error{transcript.ErrInvalid, transcript.ErrTaken},
	missing: []missing{
		{"table", "DROP TABLE holdfast_messages", "table holdfast_messages", "Raise"},
		{
			"column", "ALTER TABLE holdfast_messages DROP COLUMN body", "column body of table holdfast_messages",
			"Trim Trim of all Raise",
		},
		{
			"table of raises", "DROP TABLE holdfast_message_raises", "table holdfast_message_raises",
			"Read Copy Trim Trim of all",
		},
		{"index", "DROP INDEX holdfast_messages_id", "index holdfast_messages_id", "Read Copy Trim Trim of all Raise"},
	},

	unreachable: func(t *testing.T, s subject) { transcripttest.RunUnreachable(t, s.(saidStore)) },

	// Entries of two messages.
	fill: `WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
		INSERT INTO holdfast_messages (orchestrator, session, first, last, id, at, body)
		SELECT 'bot', 's', 2 * i + 1, 2 * i + 2, 'step ' || i, i,
			replace('[x1"}]},x2"}]}]', 'x', '{"v":1,"role":"user","turn":0,"blocks":[{"kind":"text","text":"m' || i || '.')
		FROM n`,
	plans: map[string]string{
		"SELECT first, last FROM holdfast_messages WHERE": "holdfast_messages_id (orchestrator=? AND session=? AND id=?)",
		"m.first <= ?4": "SEARCH m USING INDEX sqlite_autoindex_holdfast_messages_1 " +
			"(orchestrator=? AND session=? AND first>? AND first<?)",
		"SELECT body": "sqlite_autoindex_holdfast_messages_1 (orchestrator=? AND session=? AND first=?)",
		"NULL, ?6, e.body": "SEARCH e USING INDEX sqlite_autoindex_holdfast_messages_1 " +
			"(orchestrator=? AND session=? AND first>? AND first<?)",
		"t.body <> e.body": "SEARCH t USING INDEX sqlite_autoindex_holdfast_messages_1 " +
			"(orchestrator=? AND session=? AND first>? AND first<?)",
		"AND at < ?4": "SEARCH e USING INDEX sqlite_autoindex_holdfast_messages_1 " +
			"(orchestrator=? AND session=? AND first>? AND first<?)",
		"DELETE FROM": "INDEX sqlite_autoindex_holdfast_messages_1 (orchestrator=? AND session=?",
	},
	lists: func(t *testing.T, of subject) []list {
		s := of.(saidStore)
		name := func(i int) string { return fmt.Sprintf("m%d.%d", i/2, i%2+1) }
		touch := func(ctx context.Context, i int) error {
			_, err := s.Append(ctx, bot("s"), fmt.Sprint("touch ", i), says("more"))
			return err
		}
		return []list{
			{"all", s.said("s", transcript.Span{From: 1, Through: 2000}), 2000, name, touch},
			{"a part", s.said("s", transcript.Span{From: 100, Through: 1801}), 1702, func(i int) string {
				return name(i + 99)
			}, touch},
		}
	},
	convicts: map[string]broken{
		"numbers begin at the first": {"append", []string{"ORDER BY first DESC", "ORDER BY first"}},
		"an id of any session": {"sessions-apart", []string{
			"SELECT ?1, ?2, newest + 1", "SELECT ?1, lower(?2), newest + 1",
		}},
		"a span begins with an entry": {"copy-part", []string{"AND b.first <= (json_each.value ->> 0)", "AND b.first < 0"}},
		"a Copy replaces":             {"copy-taken", []string{"AND NOT EXISTS", "OR NOT EXISTS"}},
		"a Copy compares no messages": {"copy-taken", []string{" OR t.body <> e.body", ""}},
		"a Copy has old times":        {"copy-time", []string{"NULL, ?6, e.body", "NULL, e.at + 0 * ?6, e.body"}},
		"a Copy has ids":              {"copy-ids", []string{"NULL, ?6, e.body", "e.id, ?6, e.body"}},
		"a Trim takes the newest": {"trim-newest", []string{
			"AND first < (SELECT max(first)", "AND first <= (SELECT max(first)",
		}},
		"a Trim of all keeps the newest": {"trim-all", []string{
			"session = ?2 RETURNING",
			"session = ?2 AND first < (SELECT max(first) FROM holdfast_messages WHERE orchestrator = ?1 AND session = ?2) RETURNING",
		}},
		"a Trim takes what is named": {"trim-part", []string{"AND first NOT IN (", "AND -first NOT IN ("}},
		"a Trim counts entries":      {"trim", []string{"RETURNING last - first + 1", "RETURNING 1"}},
	},
	violations: func(ctx context.Context, open func() subject, clause string) map[string]error {
		return transcripttest.Violations(ctx, func() transcript.Store { return open().(saidStore) }, clause)
	},
	statements: func(t *testing.T, of subject) []executed {
		s := of.(saidStore)
		add := func(ctx context.Context) error { return s.say(ctx, "s", "a", "x") }
		first, err := s.Append(t.Context(), bot("s"), "first", says("x")) // the store was raised
		want(t, err, nil)
		next := first.From + 1
		two := []transcript.Span{first, {From: next, Through: next}}
		again := func(ctx context.Context) error { return s.Copy(ctx, bot("s"), bot("t"), two) }
		trim := func(before time.Time) func(context.Context) error {
			return func(ctx context.Context) error { _, err := s.Trim(ctx, bot("s"), nil, before); return err }
		}
		return []executed{
			{"Append", "BEGIN INSERT COMMIT", add},
			{"Append once more", "BEGIN INSERT SELECT COMMIT", add},
			{"Append of another", "BEGIN INSERT COMMIT", func(ctx context.Context) error { return s.say(ctx, "s", "b", "y") }},
			{"Read", "SELECT", func(ctx context.Context) error { return yielded(s.said("s", two[0])) }},
			{"Read of two spans", "SELECT SELECT", func(ctx context.Context) error { return yielded(s.said("s", two...)) }},
			{"Copy", "BEGIN INSERT COMMIT", again},
			{"Copy once more", "BEGIN INSERT SELECT COMMIT", again},
			{"Trim", "BEGIN DELETE COMMIT", trim(time.Now())},
			{"Trim of all", "BEGIN DELETE COMMIT", trim(time.Time{})},
		}
	},
	killed: func(db *sql.DB, say func(...any)) error {
		s := saidStore{sqlitetranscript.New(db, nil)}
		for n := 0; ; n++ {
			id := fmt.Sprintf("%d of %d", n, os.Getpid())
			span, err := s.Append(context.Background(), bot("s"), id, says(id))
			if err != nil {
				return err
			}
			say(id, "of", span.From)
		}
	},
	check: func(t *testing.T, of subject, _ *sql.DB) func(string) {
		return func(last string) {
			var n, pid int
			var number int64
			_, err := fmt.Sscanf(last, "%d of %d of %d", &n, &pid, &number)
			want(t, err, nil)
			for i := range n + 1 {
				id := fmt.Sprintf("%d of %d", i, pid)
				span, err := of.(saidStore).Append(t.Context(), bot("s"), id, says("another"))
				if at := number - int64(n-i); err != nil || span != (transcript.Span{From: at, Through: at}) {
					t.Errorf("entry %s was acknowledged, and is lost: %v, %v, want %d", id, span, err, at)
				}
			}
		}
	},
	contend:   contendForTranscript,
	processes: transcriptProcesses,
	torn: torn{
		n: 40, at: 20,
		write: func(ctx context.Context, s subject, i int, text string) error {
			return s.(saidStore).say(ctx, "s", fmt.Sprint(i), text)
		},
		check: checkTornMessages,
	},
}

type saidStore struct{ *sqlitetranscript.Store }

func says(text string) []message.Message { return []message.Message{message.User(text)} }

func (s saidStore) say(ctx context.Context, session, id, text string) error {
	_, err := s.Append(ctx, bot(session), id, says(text))
	return err
}

// said returns the texts of messages.
func (s saidStore) said(session string, spans ...transcript.Span) func(yield func(string, error) bool) {
	return named(s.Read(context.Background(), bot(session), spans), func(m message.Message) string {
		if len(m.Blocks) == 0 {
			return ""
		}
		return m.Blocks[0].Text
	})
}

var steps atomic.Int64

func (s saidStore) all(ctx context.Context) map[string]error {
	errs := make(map[string]error)
	n := steps.Add(1)
	said, err := s.Append(ctx, bot("all"), fmt.Sprint(n), says("x"))
	errs["Append"] = err
	span := []transcript.Span{{From: 1, Through: 1}}
	if err == nil {
		span = []transcript.Span{said}
	}
	errs["Read"] = yielded(s.Read(ctx, bot("all"), span))
	if err != nil && is[*transcript.DamagedError](errs["Read"]) {
		errs["Read"] = nil // the messages are not there
	}
	errs["Copy"] = s.Copy(ctx, bot("all"), bot(fmt.Sprint("copy ", n)), span)
	_, errs["Trim"] = s.Trim(ctx, bot("all"), nil, time.UnixMicro(1))
	_, errs["Trim of all"] = s.Trim(ctx, bot(fmt.Sprint("copy ", n)), nil, time.Time{})
	errs["Raise"] = s.Raise(ctx)
	return errs
}

func (s saidStore) ready(t *testing.T) []call {
	want(t, s.say(t.Context(), "0", "a", "x"), nil)
	one := []transcript.Span{{From: 1, Through: 1}}
	return []call{
		{do: func(ctx context.Context) error { return s.say(ctx, "1", "a", "x") }},
		{do: func(ctx context.Context) error { return s.Copy(ctx, bot("0"), bot("2"), one) }},
		{do: func(ctx context.Context) error {
			_, err := s.Trim(ctx, bot("1"), nil, time.Time{})
			return err
		}},
		{reads: true, do: func(ctx context.Context) error { return yielded(s.Read(ctx, bot("0"), one)) }},
	}
}

// cut cuts off an Append, a Copy or a Trim.
func (s saidStore) cut(t *testing.T, _ *sql.DB, n int) cut {
	session, both := fmt.Sprint("s", n), []transcript.Span{{From: 1, Through: 2}}
	now := func() string {
		all, damaged := damagedIn(t, s.said(session, both...))
		return fmt.Sprint(len(all)-len(damaged), " are there")
	}
	c := cut{func(ctx context.Context) error {
		_, err := s.Append(ctx, bot(session), "a", append(says("x"), says("y")...))
		return err
	}, "0 are there", "2 are there", now}
	if n%3 == 0 {
		return c
	}
	if n%3 == 1 {
		for _, id := range []string{"a", "b"} {
			want(t, s.say(t.Context(), "source", id, "x"), nil)
		}
		c.do = func(ctx context.Context) error { return s.Copy(ctx, bot("source"), bot(session), both) }
		return c
	}
	want(t, c.do(t.Context()), nil)
	return cut{func(ctx context.Context) error {
		_, err := s.Trim(ctx, bot(session), nil, time.Time{})
		return err
	}, c.after, c.before, now}
}

// An appended entry is what a process was told of an id.
type appended struct {
	ID   string
	Span transcript.Span
}

const stepsTogether = 100

// contendForTranscript appends entries of this process, and some that each process appends.
func contendForTranscript(db *sql.DB, say func(any)) error {
	s := saidStore{sqlitetranscript.New(db, nil)}
	var n atomic.Int64
	return together(20, func() bool { return n.Load() >= stepsTogether }, func(int) error {
		id := fmt.Sprint("shared ", n.Load())
		if i := n.Add(1); i%2 == 0 {
			id = fmt.Sprint(os.Getpid(), " ", i)
		}
		span, err := s.Append(context.Background(), bot("s"), id, append(says(id), says(id)...))
		if err == nil {
			say(appended{id, span})
		}
		return err
	})
}

// transcriptProcesses shows that each entry has one span, that no number was given twice, and that none is missing.
func transcriptProcesses(t *testing.T, of subject, _ *sql.DB, dsn string) {
	spans, ids, newest := map[string]transcript.Span{}, map[int64]string{}, int64(0)
	contended(t, "transcript", dsn, 4, func(a appended) {
		if was, known := spans[a.ID]; known && was != a.Span || a.Span.Through != a.Span.From+1 {
			t.Errorf("%q is %v, and was %v", a.ID, a.Span, was)
		}
		if other, given := ids[a.Span.From]; given && other != a.ID {
			t.Errorf("%q and %q are both %d", a.ID, other, a.Span.From)
		}
		spans[a.ID], ids[a.Span.From], newest = a.Span, a.ID, max(newest, a.Span.Through)
	})
	n := int64(0)
	for text, err := range of.(saidStore).said("s", transcript.Span{From: 1, Through: newest}) {
		n++
		want(t, err, nil)
		if id := ids[(n-1)/2*2+1]; text != id {
			t.Errorf("message %d is of %q, want %q", n, text, id)
		}
	}
	t.Logf("%d entries", len(ids))
}

// If SQLite itself cannot read the messages of an entry, they are damaged. The others can be read, and copied, and new
// ones appended.
func checkTornMessages(t *testing.T, of subject, torn torn, _ string) {
	s := of.(saidStore)
	n, at := 0, int64(torn.at)+1
	for text, err := range s.said("s", transcript.Span{From: 1, Through: int64(torn.n)}) {
		if damaged := is[*transcript.DamagedError](err); damaged != (n == torn.at) ||
			!damaged && !strings.HasPrefix(text, fmt.Sprintf("document %02d", n)) {
			t.Errorf("message %d is %.20q, %v", n, text, err)
		}
		n++
	}
	if n != torn.n {
		t.Errorf("%d messages", n)
	}
	span, err := s.Append(t.Context(), bot("s"), fmt.Sprint(torn.at), says("again"))
	if err != nil || span.From != at {
		t.Errorf("the torn entry is known as %v, %v", span, err)
	}
	want(t, s.say(t.Context(), "s", "more", "x"), nil)
	all := []transcript.Span{{From: 1, Through: int64(torn.n)}}
	want(t, s.Copy(t.Context(), bot("s"), bot("t"), all), transcript.ErrDamaged)
	if got, damaged := damagedIn(t, s.said("t", all...)); len(got) != len(damaged) {
		t.Errorf("a Copy that failed has left %d messages", len(got)-len(damaged))
	}
	want(t, s.Copy(t.Context(), bot("s"), bot("t"), []transcript.Span{{From: 1, Through: at - 1}}), nil)
}
