package snapshot_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A store looks for a run's ID in its session only. A run of another session with the same ID is another run.
func TestIDElsewhere(t *testing.T) {
	each(t, all, func(t *testing.T, d database) {
		s := d.open(t, 0)
		ctx, r := t.Context(), begin(t, s, run("a"))
		wants := func(session string, r snapshot.Run) {
			t.Helper()
			if in := inFlight(t, s, session); in != timeless(r) {
				t.Errorf("%s is in flight, want %s", in, timeless(r))
			}
		}
		other := runAs("b", r.ID, 1)
		for range 2 {
			saved := next(begin(t, s, other))
			check(t, s.Save(ctx, saved))
			wants("b", saved)
			check(t, remove(ctx, s, other))
			wants("a", r)
			other.Fence = fence(2)
		}
		b := begin(t, s, runAs("b", "another", 3))
		if in, err := s.Begin(ctx, other); err != nil || in == nil || in.ID != b.ID {
			t.Errorf("Begin of %s finds %v, %v", other.ID, in, err)
		}
		other.Fence = b.Fence
		want(t, s.Save(ctx, next(other)), lock.ErrFenced)
		check(t, remove(ctx, s, other))
		wants("a", r)
		wants("b", b)
	})
}

// A run waits from the time of its save on, to the microsecond. The NotBefore of the caller makes no difference.
func TestNotBefore(t *testing.T) {
	each(t, all, func(t *testing.T, d database) {
		s := d.open(t, 0)
		for i, pause := range []time.Duration{0, 1, time.Microsecond, 1500, time.Hour, 366 * 24 * time.Hour} {
			r := run(fmt.Sprint(i))
			r.Pause, r.NotBefore = pause, time.Unix(1e9, 0)
			begin(t, s, r)
			saved := next(begin(t, s, run(fmt.Sprint(i, "saved"))))
			saved.Pause, saved.NotBefore = pause, r.NotBefore
			check(t, s.Save(t.Context(), saved))
			for _, session := range []string{r.Session, saved.Session} {
				runs, err := list(t.Context(), s, session)
				check(t, err)
				in := runs[0]
				waits := in.NotBefore.Sub(in.SavedAt) // the server may have read its clock for each
				switch {
				case in.Pause < 0, in.Pause > pause+time.Microsecond,
					in.Pause < pause-time.Since(in.SavedAt)-time.Microsecond:
					t.Errorf("pause of %v, %v after it was saved, want %v", in.Pause, time.Since(in.SavedAt), pause)
				case pause == 0 && in.NotBefore.IsZero():
				case waits < pause-time.Second || waits > pause+time.Microsecond || in.NotBefore.Location() != time.UTC:
					t.Errorf("not before %v, saved at %v, want %v later", in.NotBefore, in.SavedAt, pause)
				}
			}
		}
	})
}

// A fence is compared as a whole number of 64 bits. So is a Seq.
func TestBigNumbers(t *testing.T) {
	each(t, all, func(t *testing.T, d database) {
		const top = 1<<63 - 1
		s, ctx := d.open(t, 0), t.Context()
		r := runAs("a", "r", top-2)
		r.Seq = top - 2
		begin(t, s, r)
		want(t, take(ctx, s, "a", top-3), lock.ErrFenced)
		want(t, take(ctx, s, "a", 999), lock.ErrFenced)
		r.Seq++
		r.Error = "second"
		check(t, s.Save(ctx, r))
		late := r
		late.Seq, late.Error = top-2, "late"
		check(t, s.Save(ctx, late))
		got, err := s.Adopt(ctx, r.Key, fence(top-1), 9)
		check(t, err)
		if got.Seq != top-1 || got.Fence != fence(top-1) || got.Error != "second" || got.Attempt != 2 {
			t.Errorf("adopted %+v", got)
		}
		want(t, take(ctx, s, "a", top-2), lock.ErrFenced)
		check(t, take(ctx, s, "a", top))

		check(t, s.Delete(ctx, r.Key, r.ID, fence(top)))
		for _, f := range []lock.Fence{fence(top - 1), fence(999), {Epoch: top, Nonce: "another"}} {
			late := runAs("a", "late", 1)
			late.Fence = f
			_, err = s.Begin(ctx, late)
			want(t, err, lock.ErrFenced)
			_, err = s.Adopt(ctx, r.Key, f, 9)
			want(t, err, lock.ErrFenced)
			want(t, s.Delete(ctx, r.Key, r.ID, f), lock.ErrFenced)
		}
		_, err = s.Begin(ctx, runAs("a", "late", top))
		want(t, err, lock.ErrFenced)
	})
}

// Names that look like hash tags, separators or escapes stay apart, and each session stays in one slot.
func TestRedisNames(t *testing.T) {
	t.Parallel()
	s := redissnapshot.New(redistest.Cluster(t), nil)
	names := []string{
		"a", "a/b", "b", "/", "{", "}", "{}", "{a}", "}{", "%", "%2F", "%252F", "a:run", "\n", "*", "😀", "\u202e",
		strings.Repeat("{", 512),
	}
	payload := func(k snapshot.Key) json.RawMessage {
		doc, _ := json.Marshal(k)
		return doc
	}
	for i, orchestrator := range names {
		for _, session := range names {
			r := runAs(session, "r", int64(i+1))
			r.Orchestrator = orchestrator
			r.Payload = payload(r.Key)
			begin(t, s, r)
		}
	}
	for i, orchestrator := range names {
		n := 0
		for r, err := range s.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: orchestrator}}) {
			check(t, err)
			want := payload(snapshot.Key{Orchestrator: orchestrator, Session: r.Session})
			if string(r.Payload) != string(want) {
				t.Errorf("session %q of %q holds %s", r.Session, orchestrator, r.Payload)
			}
			n++
			check(t, s.Delete(t.Context(), r.Key, "r", fence(int64(i+1))))
		}
		if n != len(names) {
			t.Errorf("%d sessions of %q, want %d", n, orchestrator, len(names))
		}
	}
}
