package transcript_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

func TestMemorySchema(t *testing.T) {
	if got := new(transcript.Memory).Schema(); got != "" {
		t.Errorf("schema %q", got)
	}
}

// An entry that is as old as the time stays.
func TestMemoryTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where the clock stands still
		s := new(transcript.Memory)
		for _, id := range []string{"a", "b"} {
			if _, err := s.Append(t.Context(), key, id, []message.Message{message.User(id)}); err != nil {
				t.Fatal(err)
			}
		}
		for before, want := range map[time.Duration]int{0: 0, 1: 1} {
			if n, err := s.Trim(t.Context(), key, nil, time.Now().Add(before)); n != want || err != nil {
				t.Errorf("%v after: %d, %v, want %d", before, n, err, want)
			}
		}
	})
}

// The memory of sessions that were deleted, or never written, is free.
func TestMemoryKeepsNothing(t *testing.T) {
	s := new(transcript.Memory)
	other := transcript.Key{Orchestrator: "bot", Session: "other"}
	for range 3 {
		if _, err := s.Append(t.Context(), key, "a", []message.Message{message.User("a")}); err != nil {
			t.Fatal(err)
		}
		if err := s.Copy(t.Context(), key, other, []transcript.Span{span(7, 9)}); err != nil {
			t.Fatal(err)
		}
		for _, before := range []time.Time{time.Now(), {}} {
			if _, err := s.Trim(t.Context(), other, nil, before); err != nil {
				t.Fatal(err)
			}
			if n, err := s.Trim(t.Context(), key, nil, before); err != nil || before.IsZero() && n != 1 {
				t.Fatal(n, err)
			}
		}
		if n := s.Sessions(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	}
}
