package inbox_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/inbox"
)

func TestMemorySchema(t *testing.T) {
	if got := new(inbox.Memory).Schema(); got != "" {
		t.Errorf("schema %q", got)
	}
}

// Items of one time come by id.
func TestMemoryTies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where the clock stands still
		s := new(inbox.Memory)
		for _, id := range []string{"b", "é", "a", "B", "c"} {
			if first, err := s.Post(t.Context(), item(id)); err != nil || !first {
				t.Fatal(first, err)
			}
		}
		var got string
		for it, err := range s.Items(t.Context(), key, inbox.Answer) {
			if got += it.ID; err != nil {
				t.Error(err)
			}
		}
		if want := "Babcé"; got != want {
			t.Errorf("items %s, want %s", got, want)
		}
	})
}

// A list that cannot begin tells one error, and nothing else.
func TestMemoryEnded(t *testing.T) {
	s := new(inbox.Memory)
	if _, err := s.Post(t.Context(), item("q")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := 0
	for it, err := range s.Items(ctx, key, inbox.Answer) {
		if n++; !errors.Is(err, context.Canceled) || it.ID != "" {
			t.Errorf("item %q, %v", it.ID, err)
		}
	}
	if n != 1 {
		t.Errorf("it yields %d times, want 1", n)
	}
}

// The memory of sessions without items is free.
func TestMemoryKeepsNothing(t *testing.T) {
	s := new(inbox.Memory)
	for range 3 {
		for _, kind := range inbox.Kinds() {
			it := item("q")
			it.Kind = kind
			if _, err := s.Post(t.Context(), it); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.Drawers(); n != len(inbox.Kinds()) {
			t.Errorf("%d drawers", n)
		}
		if err := s.Remove(t.Context(), key, ""); err != nil {
			t.Fatal(err)
		}
		if n := s.Drawers(); n != 0 {
			t.Errorf("%d drawers are left", n)
		}
	}
}
