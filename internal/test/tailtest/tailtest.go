// Package tailtest shows that the readers of a stream store, which processes share, wait cheaply and miss nothing.
package tailtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/stream"
)

// patience bounds everything that is waited for.
const patience = time.Minute

// A Reader reads one session in a goroutine of its own.
type Reader struct {
	// Chunks has the chunks as they come.
	Chunks chan stream.Chunk

	done chan struct{}
	err  error // until done
	stop context.CancelFunc
}

// Read starts a reader, which is stopped before the test ends.
func Read(t testing.TB, s stream.Store, k stream.Key, seq int64) *Reader {
	ctx, stop := context.WithCancel(t.Context())
	r := &Reader{Chunks: make(chan stream.Chunk, 1<<14), done: make(chan struct{}), stop: stop}
	go func() {
		defer close(r.done)
		for c, err := range s.Read(ctx, k, seq) {
			if err != nil {
				r.err = err
				return
			}
			r.Chunks <- c
		}
	}()
	t.Cleanup(func() {
		r.stop()
		<-r.done
	})
	return r
}

// Next waits for the next chunk.
func (r *Reader) Next() (stream.Chunk, error) {
	select {
	case c := <-r.Chunks:
		return c, nil
	case <-time.After(patience):
		return stream.Chunk{}, errors.New("no chunk comes")
	case <-r.done:
	}
	select {
	case c := <-r.Chunks:
		return c, nil
	default:
		return stream.Chunk{}, fmt.Errorf("the reader has ended: %w", r.err)
	}
}

// End waits until the reader has ended, and returns its error.
func (r *Reader) End() error {
	select {
	case <-r.done:
		return r.err
	case <-time.After(patience):
		return errors.New("the reader does not end")
	}
}

func one(n int) []json.RawMessage { return []json.RawMessage{json.RawMessage(fmt.Sprint(n))} }

func key(n int) stream.Key { return stream.Key{Orchestrator: "crowd", Session: fmt.Sprint("s-", n)} }

// Append appends one chunk of the run r-1, and fails the test if that fails.
func Append(t testing.TB, s stream.Store, k stream.Key, status stream.Status) int64 {
	t.Helper()
	last, err := s.Append(t.Context(), k, "r-1", 1, status, one(0))
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// Crowd lets n readers wait, each for a session of its own. While all of them wait, it calls waiting. Then each gets a
// chunk, and the end.
func Crowd(t *testing.T, writer, reader stream.Store, n int, waiting func()) {
	t.Helper()
	readers := make([]*Reader, n)
	for i := range readers {
		Append(t, writer, key(i), stream.Active)
		readers[i] = Read(t, reader, key(i), 0)
	}
	for i, r := range readers {
		if _, err := r.Next(); err != nil {
			t.Fatalf("reader %d: %v", i, err)
		}
	}
	waiting()
	for i := range readers {
		Append(t, writer, key(i), stream.Ended)
	}
	for i, r := range readers {
		c, err := r.Next()
		if err = errors.Join(err, r.End()); err != nil || c.Seq != 2 {
			t.Fatalf("reader %d: chunk %d, %v", i, c.Seq, err)
		}
	}
}

// Cut makes a cut while readers wait, a few times. They get each chunk once, in order, from before and after.
func Cut(t *testing.T, writer, reader stream.Store, cut func()) {
	t.Helper()
	k := stream.Key{Orchestrator: "cut", Session: "s"}
	last := Append(t, writer, k, stream.Active)
	readers := make([]*Reader, 4)
	for i := range readers {
		readers[i] = Read(t, reader, k, 0)
	}
	seen := int64(0)
	read := func(until int64) {
		t.Helper()
		for n := seen + 1; n <= until; n++ {
			for i, r := range readers {
				if c, err := r.Next(); err != nil || c.Seq != n {
					t.Fatalf("reader %d gets chunk %d after %d, %v", i, c.Seq, n-1, err)
				}
			}
		}
		seen = until
	}
	for range 3 {
		read(last)
		cut()
		last = again(t, writer, k)
		read(last)
		last = Append(t, writer, k, stream.Active)
	}
	read(last)
	Append(t, writer, k, stream.Ended)
	for i, r := range readers {
		if err := r.End(); err != nil {
			t.Errorf("reader %d ends with %v", i, err)
		}
	}
}

// again appends until the store takes it.
func again(t *testing.T, s stream.Store, k stream.Key) int64 {
	t.Helper()
	for start := time.Now(); ; {
		last, err := s.Append(t.Context(), k, "r-1", 1, stream.Active, one(0))
		if err == nil {
			return last
		}
		if time.Since(start) > patience {
			t.Fatal(err)
		}
	}
}

// Delay returns how long a chunk takes from the call of Append to the loop of a reader in another process that waits:
// the longest of the fastest quarter of n, and the longest of all. A busy machine delays the others.
func Delay(t testing.TB, writer, reader stream.Store, n int) (quarter, longest time.Duration) {
	t.Helper()
	k := stream.Key{Orchestrator: "delay", Session: "s"}
	Append(t, writer, k, stream.Active)
	r := Read(t, reader, k, 0)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	all := make([]time.Duration, n)
	for i := range all {
		time.Sleep(10 * time.Millisecond) // so that the reader waits again
		began := time.Now()
		Append(t, writer, k, stream.Active)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		all[i] = time.Since(began)
	}
	Append(t, writer, k, stream.Ended)
	slices.Sort(all)
	return all[n/4], all[n-1]
}
