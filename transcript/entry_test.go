package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// entry returns an entry of messages whose texts are their numbers.
func entry(t testing.TB, from, through int64) transcript.Entry {
	t.Helper()
	var msgs []message.Message
	for n := from; n <= through; n++ {
		msgs = append(msgs, message.User(fmt.Sprint(n)))
	}
	body, err := transcript.EncodeEntry(key, "a", msgs)
	if err != nil {
		t.Fatal(err)
	}
	return transcript.Entry{Span: span(from, through), Body: body}
}

// A shelf holds entries, and notes the pages that are asked for.
type shelf struct {
	entries []transcript.Entry
	asked   []string
	short   int // how many entries a page has at most, if it is not 0
	fail    error
}

func (s *shelf) page(_ context.Context, o transcript.Span, most int) (page []transcript.Entry, more bool, err error) {
	s.asked = append(s.asked, fmt.Sprint(o.From, " ", most))
	if s.short > 0 {
		most = s.short
	}
	for _, e := range s.entries {
		if e.From <= o.Through && e.Through >= o.From && len(page) < most {
			page = append(page, e)
		}
	}
	return page, len(page) == most, s.fail
}

// read returns the texts of messages and of errors.
func (s *shelf) read(ctx context.Context, spans ...transcript.Span) (all []string) {
	for m, err := range transcript.ReadPages(ctx, key, spans, s.page) {
		if d, is := errors.AsType[*transcript.DamagedError](err); is {
			all = append(all, fmt.Sprintf("%s: %s", d.ID, d.Reason))
		} else if err != nil {
			all = append(all, err.Error())
		} else {
			all = append(all, m.Blocks[0].Text)
		}
	}
	return all
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// The first page is small, and later pages have a bound.
func TestPagesGrow(t *testing.T) {
	s := new(shelf)
	var want []string
	for n := range int64(700) {
		s.entries = append(s.entries, entry(t, n+1, n+1))
		want = append(want, fmt.Sprint(n+1))
	}
	wantLines(t, s.read(t.Context(), span(1, 600)), want[:600]...)
	wantLines(t, s.asked, "1 64", "65 256", "321 256", "577 256")
	s.asked = nil
	wantLines(t, s.read(t.Context(), span(1, 64), transcript.Span{}, span(700, 700)), append(want[:64:64], "700")...)
	wantLines(t, s.asked, "1 64", "700 256")
	s.asked = nil
	wantLines(t, s.read(t.Context(), transcript.Span{}))
	wantLines(t, s.asked)
	for _, err := range transcript.ReadPages(t.Context(), key, []transcript.Span{span(1, 700)}, s.page) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	wantLines(t, s.asked, "1 64")
}

// A page may have fewer entries than were asked for, if they are large.
func TestShortPages(t *testing.T) {
	s := &shelf{short: 2, entries: []transcript.Entry{
		entry(t, 1, 2), entry(t, 3, 3), entry(t, 4, 6), entry(t, 8, 8), entry(t, 9, 9),
	}}
	const missing = "the transcript does not have them"
	wantLines(t, s.read(t.Context(), span(2, 7), span(9, 20)), "2", "3", "4", "5", "6", "7: "+missing, "9",
		"10 to 20: "+missing)
	wantLines(t, s.asked, "2 64", "4 256", "9 256")
}

// What no store has written is told in its place.
func TestDamagedEntries(t *testing.T) {
	const missing = "the transcript does not have them"
	good := func(from, through int64) transcript.Entry { return entry(t, from, through) }
	with := func(e transcript.Entry, change func(e *transcript.Entry)) transcript.Entry {
		change(&e)
		return e
	}
	body := func(body string) func(*transcript.Entry) {
		return func(e *transcript.Entry) { e.Body = []byte(body) }
	}
	unread := func(e *transcript.Entry) { e.Unread = errors.New("lost") }
	below := func(e *transcript.Entry) { e.From = math.MinInt64 }
	through := func(n int64) func(*transcript.Entry) { return func(e *transcript.Entry) { e.Through = n } }
	for _, c := range []struct {
		what    string
		entries []transcript.Entry
		want    []string
	}{
		{"nothing", nil, []string{"1 to 6: " + missing}},
		{"a gap before", []transcript.Entry{good(3, 6)}, []string{"1 to 2: " + missing, "3", "4", "5", "6"}},
		{
			"gaps",
			[]transcript.Entry{good(2, 3), good(5, 5)},
			[]string{"1: " + missing, "2", "3", "4: " + missing, "5", "6: " + missing},
		},
		{
			"a message too few",
			[]transcript.Entry{with(good(1, 2), through(3)), good(4, 6)},
			[]string{"1 to 3: it has 2 messages", "4", "5", "6"},
		},
		{
			"a message too many",
			[]transcript.Entry{with(good(1, 3), through(2)), good(4, 6)},
			[]string{"1 to 2: it has 3 messages", "3: " + missing, "4", "5", "6"},
		},
		{
			"unread",
			[]transcript.Entry{with(good(1, 3), unread), good(4, 6)},
			[]string{"1 to 3: lost", "4", "5", "6"},
		},
		{
			"no body",
			[]transcript.Entry{with(good(1, 6), body(""))},
			[]string{"1 to 6: unexpected end of JSON input"},
		},
		{"null", []transcript.Entry{with(good(1, 6), body("null"))}, []string{"1 to 6: it has 0 messages"}},
		{"bytes", []transcript.Entry{with(good(1, 6), body("\"\xff\""))}, []string{"1 to 6: not UTF-8"}},
		{
			"another version",
			[]transcript.Entry{with(good(1, 1), body(`[{"v":2}]`)), good(2, 6)},
			[]string{"1: unknown version of message: 2", "2", "3", "4", "5", "6"},
		},
		{
			"numbers without end",
			[]transcript.Entry{with(good(1, 1), through(math.MaxInt64)), good(2, 6)},
			[]string{"1: it has the numbers 1 to 9223372036854775807", "2", "3", "4", "5", "6"},
		},
		{
			"numbers of another",
			[]transcript.Entry{with(good(1, 2), through(4)), good(3, 4), good(5, 6)},
			[]string{"1 to 4: it has 2 messages", "5", "6"},
		},
		{
			"numbers from below 0",
			[]transcript.Entry{with(good(1, 2), below), good(3, 6)},
			[]string{"1 to 2: " + missing, "3", "4", "5", "6"},
		},
	} {
		s := &shelf{entries: c.entries}
		if got := s.read(t.Context(), span(1, 6)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q\nwant %q", c.what, got, c.want)
		}
	}
}

// Read ends if a page has nothing new, however many entries it has.
func TestDamagedNumbersEnd(t *testing.T) {
	s := new(shelf)
	for n := range int64(1000) {
		e := entry(t, n+1, n+1)
		e.Through = math.MaxInt64
		s.entries = append(s.entries, e)
	}
	got := s.read(t.Context(), span(1, 2000))
	if n := len(got); n != 257 || len(s.asked) != 3 || !strings.HasPrefix(got[n-1], "257 to 2000: ") {
		t.Errorf("%d lines after %d pages, the last is %q", n, len(s.asked), got[n-1])
	}
}

func TestReadPagesFails(t *testing.T) {
	s := &shelf{fail: errors.New("away"), entries: []transcript.Entry{entry(t, 1, 3)}}
	wantLines(t, s.read(t.Context(), span(1, 2), span(3, 3)), "away")
	s.fail = nil
	wantLines(t, s.read(t.Context(), span(2, 1)), "invalid argument: span 2 to 1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantLines(t, s.read(ctx, span(1, 3)), context.Canceled.Error())
}

// The error of one entry names its messages, and what to do.
func TestDamagedError(t *testing.T) {
	for text, s := range map[string]transcript.Span{`messages "7"`: span(7, 7), `messages "7 to 9"`: span(7, 9)} {
		err := transcript.Damaged(key, s, errors.New("reason"))
		want := fmt.Sprintf(`damaged: %s of session "s": reason: restore them, or let the state name others`, text)
		if err.Error() != want || !errors.Is(err, transcript.ErrDamaged) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// No stored body makes Read panic. What is read can be appended again, and is then read as it was.
func FuzzBody(f *testing.F) {
	f.Add(entry(f, 1, 3).Body, int64(3))
	for _, body := range []string{
		`[]`, `null`, `{}`, `[null]`, `[{"v":2}]`, `[{"v":1,"role":"user","turn":0,"blocks":[{"kind":"image","a":1.0}]}]`,
		`[{"v":1,"blocks":[{"kind":"tool_call","args":"\ud800"}]},{"v":1,"created_at":"0000-01-01T00:00:00+23:59"}]`,
		`[{"v":1,"blocks":[null]}]`, "[{\"v\":1,\"role\":\"\xff\"}]", `[{"v":1}`,
	} {
		f.Add([]byte(body), int64(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, through int64) {
		read := func(body []byte) (msgs []message.Message, damaged bool) {
			s := &shelf{entries: []transcript.Entry{{Span: span(1, through), Body: body}}}
			for m, err := range transcript.ReadPages(t.Context(), key, []transcript.Span{span(1, 4)}, s.page) {
				if err == nil {
					msgs = append(msgs, m)
				} else if !errors.Is(err, transcript.ErrDamaged) {
					t.Errorf("read %q: %v", body, err)
				} else {
					damaged = true
				}
			}
			return msgs, damaged
		}
		msgs, _ := read(body)
		if len(msgs) == 0 || through > 4 {
			return
		}
		again, err := transcript.EncodeEntry(key, "a", msgs)
		if err != nil {
			return // what no store takes was not written by a store
		}
		second, _ := read(again)
		third, err := transcript.EncodeEntry(key, "a", second)
		if err != nil || string(third) != string(again) {
			t.Errorf("%s was read as %s, %v", again, third, err)
		}
	})
}
