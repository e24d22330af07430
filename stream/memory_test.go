package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// A session is forgotten when its TTL has passed since its last Append, and its readers end.
func TestMemoryTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &stream.Memory{TTL: time.Minute}
		k := stream.Key{Orchestrator: "bot", Session: "s"}
		add := func() {
			data := []json.RawMessage{json.RawMessage("1")}
			if _, err := m.Append(t.Context(), k, "r", 1, stream.Active, data); err != nil {
				t.Fatal(err)
			}
		}
		add()
		time.Sleep(50 * time.Second)
		add()
		time.Sleep(50 * time.Second)
		if last, _, _, err := m.Last(t.Context(), k); last != 2 || err != nil {
			t.Errorf("before the TTL has passed: %d, %v", last, err)
		}
		time.Sleep(11 * time.Second)
		for _, err := range m.Read(t.Context(), k, 1) {
			if !errors.Is(err, stream.ErrGone) {
				t.Errorf("after the TTL: %v, want ErrGone", err)
			}
		}
		add()
		time.Sleep(2 * time.Minute)
		if n, err := m.Sweep(t.Context(), 0); n != 1 || err != nil {
			t.Errorf("Sweep: %d, %v", n, err)
		}
	})
}

// Sweep forgets as many sessions as it is told to, and none before its time. A store that is used forgets them without
// it.
func TestMemorySweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, one := &stream.Memory{TTL: time.Minute}, []json.RawMessage{json.RawMessage("1")}
		add := func(session string) {
			t.Helper()
			k := stream.Key{Orchestrator: "bot", Session: session}
			if _, err := m.Append(t.Context(), k, "r", 1, stream.Ended, one); err != nil {
				t.Fatal(err)
			}
		}
		swept := func(limit, want int) {
			t.Helper()
			if n, err := m.Sweep(t.Context(), limit); n != want || err != nil {
				t.Errorf("%v: Sweep(%d): %d, %v, want %d", time.Now(), limit, n, err, want)
			}
		}
		for _, session := range []string{"a", "b", "c"} {
			add(session)
		}
		time.Sleep(time.Minute)
		swept(0, 0)
		time.Sleep(time.Nanosecond)
		swept(2, 2)
		swept(2, 1)
		add("d")
		time.Sleep(2 * time.Minute)
		add("e")
		swept(0, 0)
		time.Sleep(2 * time.Minute)
		swept(0, 1)
		add("f")
		time.Sleep(55 * time.Second)
		add("g") // sweeps
		time.Sleep(6 * time.Second)
		k := stream.Key{Orchestrator: "bot", Session: "f"}
		if last, _, _, err := m.Last(t.Context(), k); last != 0 || err != nil {
			t.Errorf("after its TTL: %d, %v", last, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.Sweep(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("Sweep after the end of its ctx: %v", err)
		}
	})
}

// A reader that is at work when the TTL passes does not go on in what the session shows later.
func TestMemoryTTLBetweenPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &stream.Memory{TTL: time.Minute}
		k := stream.Key{Orchestrator: "bot", Session: "s"}
		add := func(run string, n int) {
			data := slices.Repeat([]json.RawMessage{json.RawMessage("1")}, n)
			if _, err := m.Append(t.Context(), k, run, 1, stream.Active, data); err != nil {
				t.Fatal(err)
			}
		}
		add("r-1", 2)
		var ended error
		for c, err := range m.Read(t.Context(), k, 0) {
			if ended = err; err == nil && c.Run != "r-1" {
				t.Fatalf("the reader gets chunk %d of the next life", c.Seq)
			}
			if c.Seq == 2 {
				time.Sleep(2 * time.Minute)
				add("r-2", 4)
			}
		}
		if !errors.Is(ended, stream.ErrGone) {
			t.Errorf("the reader ends with %v, want ErrGone", ended)
		}
	})
}

func TestKeepOf(t *testing.T) {
	for keep, want := range map[int]int{
		math.MinInt: stream.DefaultKeep, -1: stream.DefaultKeep, 0: stream.DefaultKeep, 1: 1, 5000: 5000,
		stream.MaxKeep: stream.MaxKeep, stream.MaxKeep + 1: stream.MaxKeep, math.MaxInt: stream.MaxKeep,
	} {
		if got := stream.KeepOf(keep); got != want {
			t.Errorf("KeepOf(%d) is %d, want %d", keep, got, want)
		}
	}
}
