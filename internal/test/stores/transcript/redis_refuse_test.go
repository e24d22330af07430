package transcript_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
)

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestRedisUnreachable(t *testing.T) {
	t.Parallel()
	onRedis.TestUnreachable(t, transcripttest.RunUnreachable)
}

func TestRedisEviction(t *testing.T) { onRedis.TestEviction(t) }

// A write that a server refuses is not done, and its error says so.
func TestRedisRefused(t *testing.T) {
	t.Parallel()
	for _, refusal := range redistest.Refusals {
		t.Run(refusal.Code, func(t *testing.T) {
			t.Parallel()
			client, refuse := refusal.Begin(t)
			s := onRedis.New(client, "")
			say(t, s, "s", "a")
			refuse()
			errs := calls(t.Context(), s)
			delete(errs, "Trim of all") // there is nothing, so nothing is written
			delete(errs, "Trim")
			passes := []string{"Read"}
			switch refusal.Code {
			case "OOM":
				passes = append(passes, "Raise")
			case "READONLY", "NOREPLICAS":
			default:
				passes = nil
			}
			for _, call := range passes {
				check(t, errs[call])
				delete(errs, call)
			}
			for what, err := range errs {
				if !errors.Is(err, transcript.ErrRefused) || !strings.Contains(err.Error(), refusal.Remedy) {
					t.Errorf("%s: got %v, want %v that says %q", what, err, transcript.ErrRefused, refusal.Remedy)
				}
			}
		})
	}
}

// At maxmemory what would add an entry is refused, and leaves no trace. All else passes. Otherwise it would be
// impossible to make room.
func TestRedisMaxmemory(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := onRedis.New(client, "")
	say(t, s, "s", "a", "b", "c")
	check(t, s.Copy(t.Context(), key("s"), key("t"), []transcript.Span{span(1, 2)}))
	redistest.Fill(t, client)
	before := redistest.Digest(t, client)
	for _, session := range []string{"s", "new"} {
		_, err := s.Append(t.Context(), key(session), "x", said("x"))
		if copied := s.Copy(t.Context(), key("s"), key(session+"2"), []transcript.Span{span(1, 2)}); !errors.Is(err,
			transcript.ErrRefused) || !errors.Is(copied, transcript.ErrRefused) {
			t.Errorf("got %v and %v, want %v", err, copied, transcript.ErrRefused)
		}
	}
	if after := redistest.Digest(t, client); after != before {
		t.Error("what was refused has left something")
	}
	if got := say(t, s, "s", "b"); got != span(2, 2) {
		t.Errorf("the entry has the numbers %v", got)
	}
	check(t, s.Copy(t.Context(), key("s"), key("t"), []transcript.Span{span(1, 2)})) // it has them
	for _, trim := range []func() (int, error){
		func() (int, error) { return s.Trim(t.Context(), key("s"), []transcript.Span{span(1, 1)}, future) },
		func() (int, error) { return s.Trim(t.Context(), key("t"), nil, zero) },
	} {
		if _, err := trim(); err != nil {
			t.Error(err)
		}
	}
	if got := there(t.Context(), s, "s"); len(got) < 3 || got[0] != "a" || got[2] != "c" {
		t.Errorf("left are %q", got)
	}
}

// The refusal of a repeat says nothing about the first copy, which had no answer, and took effect.
func TestRedisRefusedRepeat(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{MinRetryBackoff: -1})
	other := redis.NewClient(client.Options())
	defer other.Close()
	s := onRedis.New(other, "")
	say(t, s, "s", "a") // Redis has the script now, and the store the time
	other.AddHook(&redistest.Deaf{Err: redistest.Reply("READONLY You can't write against a read only replica.")})
	_, err := s.Append(t.Context(), key("s"), "b", said("b"))
	if err == nil || errors.Is(err, transcript.ErrRefused) || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("got %v, want an error that is not %v", err, transcript.ErrRefused)
	}
	if got := heard(t, onRedis.New(client, ""), "s"); got != "a b" {
		t.Errorf("there is %q", got)
	}
}

// No reply of a server makes a call panic.
func FuzzReply(f *testing.F) {
	const one = "1700000000000000\n1\n2\ncall\n[]"
	for _, reply := range []string{
		"OK", "NEW\n1700000000000000", "OK\n1\n2\n1700000000000000", "OK\n1\nx", "OK\n7", "BEGIN\n1700000000000000", "BEGIN", "BEGIN\nx", "TAKEN",
		"END", "END\n" + one, "MORE\n" + one, "MORE", "MORE\n1", "END\n1\n2", "END\n1\nx\n2\nc\n[]", "END\n1\n5\n2\nc\n[]",
		"MORE\n1\n1\n9007199254740992\nc\n[", "INVALID\nno set", "INVALID", "#1", "~", "",
		"-NOSCRIPT", "-LOADING", "-OOM", "-WRONGTYPE ", "-ERR Error running script: -READONLY ",
	} {
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		client := redistest.Answering(reply)
		defer client.Close()
		s := onRedis.New(client, "")
		for range 2 {
			if got, err := s.Append(t.Context(), key("s"), "a", said("a")); err != nil && got != (transcript.Span{}) {
				t.Errorf("the numbers %v, with error %v", got, err)
			}
		}
		_, _ = s.Trim(t.Context(), key("s"), nil, zero)
		_ = s.(transcript.Raiser).Raise(t.Context())
		spans := []transcript.Span{span(1, 2), span(4, transcript.MaxNumber)}
		_ = s.Copy(t.Context(), key("s"), key("t"), spans)
		for m, err := range s.Read(t.Context(), key("s"), spans) {
			if err == nil && m.Role == "" && len(m.Blocks) > 0 {
				t.Logf("read %+v", m)
			}
		}
	})
}
