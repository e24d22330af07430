package transcript_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// What a foreign program may give is kept exactly, or refused with nothing written, alike on each database.
func TestForeign(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) transcript.Store) {
		s := open(t)
		say(t, s, "s", "a", "b", "c")
		for name, c := range map[string]struct {
			session, id, text string
			valid             bool
		}{
			"id of 512 bytes":        {"t1", strings.Repeat("é", 256), "x", true},
			"id of 513 bytes":        {"t2", strings.Repeat("x", 513), "x", false},
			"session of 513 bytes":   {strings.Repeat("x", 513), "a", "x", false},
			"U+0000 in an id":        {"t3", "a\x00", "x", false},
			"U+0000 in a session":    {"t\x00", "a", "x", false},
			"U+0000 in a text":       {"t4", "a", "x\x00y", false},
			"no UTF-8 in an id":      {"t5", "\xff", "x", false},
			"no UTF-8 in a session":  {"\xc3", "a", "x", false},
			"the replacement":        {"t8", "a", "\ufffd", true},
			"marks of direction":     {"t9", "\u202e", "\u202e\u0000"[:3], true},
			"a name of a raise":      {"raised", "raised", "x", true},
			"a name of all sessions": {"transcripts", "transcripts", "x", true},
		} {
			k := transcript.Key{Orchestrator: "bot", Session: c.session}
			got, err := s.Append(t.Context(), k, c.id, []message.Message{message.User(c.text)})
			switch {
			case c.valid && (err != nil || got != span(1, 1)):
				t.Errorf("%s: %v, %v", name, got, err)
			case !c.valid && err == nil:
				kept, err := read(t.Context(), s, c.session, got)
				t.Errorf("%s is taken, and reads as %q, %v", name, kept, err)
			case !c.valid && !errors.Is(err, transcript.ErrInvalid):
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := heard(t, s, "s"); got != "a b c" {
			t.Errorf("there is %q", got)
		}
		_, err := s.Append(t.Context(), key("t"), "a", said("x\xff \xed\xa0\x80"))
		check(t, err)
		if got := heard(t, s, "t"); got != "x\ufffd \ufffd\ufffd\ufffd" { // as JSON has it
			t.Errorf("what is no UTF-8 reads as %q", got)
		}
	})
}

// Spans that name the same, or more than there is, cost what is there.
func TestForeignSpans(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) transcript.Store) {
		s := open(t)
		say(t, s, "s", "a", "b", "c")
		calls := func(spans ...transcript.Span) (err error) {
			for _, err := range s.Read(t.Context(), key("s"), spans) {
				if err != nil && !isDamage(err) {
					return err
				}
			}
			copied := s.Copy(t.Context(), key("s"), key("t"), spans)
			_, trimmed := s.Trim(t.Context(), key("t"), spans, time.UnixMicro(1))
			return errors.Join(copied, trimmed)
		}
		var many, too []transcript.Span
		for i := range int64(10_000) {
			one := span(1+i%3, transcript.MaxNumber-i)
			if too = append(too, one); len(many) < transcript.MaxSpans {
				many = append(many, one)
			}
		}
		for name, c := range map[string]struct {
			spans []transcript.Span
			valid bool
		}{
			"all there can be":      {[]transcript.Span{span(1, transcript.MaxNumber)}, true},
			"more than there can":   {[]transcript.Span{span(1, math.MaxInt64)}, false},
			"far away":              {[]transcript.Span{span(transcript.MaxNumber, transcript.MaxNumber)}, true},
			"overlapping":           {[]transcript.Span{span(1, 2), span(2, 3), span(1, 3), {}}, true},
			"reversed":              {[]transcript.Span{span(3, 1)}, false},
			"reversed behind valid": {[]transcript.Span{span(1, 2), span(math.MaxInt64, math.MinInt64)}, false},
			"negative":              {[]transcript.Span{span(-1, 2)}, false},
			"from 0":                {[]transcript.Span{span(0, 2)}, false},
			"none":                  {nil, true},
			"zero":                  {make([]transcript.Span, transcript.MaxSpans), true},
			"4,096 of all":          {many, true},
			"10,000":                {too, false},
		} {
			begin := time.Now()
			err := calls(c.spans...)
			if c.valid && err != nil || !c.valid && !errors.Is(err, transcript.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
			t.Logf("%s: %v", name, time.Since(begin))
		}
		if got := heard(t, s, "s"); got != "a b c" {
			t.Errorf("there is %q", got)
		}
	})
}

// Many clients append with one id, while others copy the session, trim it, and append to it.
func TestForeignCrowd(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) transcript.Store) {
		s := open(t)
		say(t, s, "s", "first")
		const clients = 32
		var spans [clients]transcript.Span
		var errs [clients + 3]error
		var acts []func()
		for i := range clients {
			acts = append(acts, func() {
				spans[i], errs[i] = s.Append(t.Context(), key("s"), "one", said(fmt.Sprint("client ", i)))
			})
		}
		var copies atomic.Int64
		acts = append(acts, func() {
			for i := range 20 {
				_, err := s.Append(t.Context(), key("s"), fmt.Sprint("other ", i), said("other"))
				errs[clients] = errors.Join(errs[clients], err)
			}
		}, func() {
			for i := range 20 {
				to := key(fmt.Sprint("copy ", i))
				err := s.Copy(t.Context(), key("s"), to, []transcript.Span{span(1, 40)})
				errs[clients+1] = errors.Join(errs[clients+1], err)
				copies.Add(1)
			}
		}, func() {
			for range 20 {
				_, err := s.Trim(t.Context(), key("s"), []transcript.Span{span(1, 1), span(2, 40)}, future)
				errs[clients+2] = errors.Join(errs[clients+2], err)
			}
		})
		suite.Together(acts...)
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		for i := range spans {
			if spans[i] != spans[0] {
				t.Errorf("one id has the numbers %v and %v", spans[0], spans[i])
			}
		}
		all, err := read(t.Context(), s, "s", span(1, 22))
		if check(t, err); len(all) != 22 || all[0] != "first" || strings.Count(strings.Join(all, "\n"), "client") != 1 {
			t.Errorf("there are %d messages: %q", len(all), all)
		}
		for i := range copies.Load() { // each is the session as it was at one moment
			got, err := read(t.Context(), s, fmt.Sprint("copy ", i), span(1, 22))
			if check(t, err); len(got) == 0 || strings.Join(got, " ") != strings.Join(all[:len(got)], " ") {
				t.Errorf("copy %d is %q of %q", i, got, all)
			}
		}
	})
}
