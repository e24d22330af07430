package redissnapshot_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	snapshottest.Run(t, newStore)
}

func TestStoreCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	n := 0
	snapshottest.Run(t, func(t *testing.T) snapshot.Store {
		n++
		return redissnapshot.New(client, &redissnapshot.Options{Prefix: fmt.Sprintf("c%d:", n)})
	})
}

func TestRaise(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	n := 0
	for name, newStore := range map[string]func(*testing.T) snapshottest.RaisingStore{
		"server": func(t *testing.T) snapshottest.RaisingStore {
			client, prefix := testenv.Redis(t)
			return redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix})
		},
		"cluster": func(*testing.T) snapshottest.RaisingStore {
			n++
			return redissnapshot.New(client, &redissnapshot.Options{Prefix: fmt.Sprintf("c%d:", n)})
		},
	} {
		t.Run(name, func(t *testing.T) { snapshottest.RunRaiser(t, newStore) })
	}
}

func BenchmarkStore(b *testing.B) {
	client, prefix := testenv.Redis(b)
	snapshottest.Bench(b, redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix}))
}

func newStore(t *testing.T) snapshot.Store {
	client, prefix := testenv.Redis(t)
	return redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix})
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	redistest.Prefixes(t, func(prefix string) { redissnapshot.New(nil, &redissnapshot.Options{Prefix: prefix}) })
	if got := redissnapshot.New(nil, nil).Schema(); got != "" {
		t.Errorf("schema %q", got)
	}
}

// Names that look like hash tags, separators or escapes stay apart, and each session stays in one slot.
func TestNames(t *testing.T) {
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
			r := run(session, "r", fence(int64(i+1)))
			r.Orchestrator = orchestrator
			r.Payload = payload(r.Key)
			begin(t, s, r)
		}
	}
	for i, orchestrator := range names {
		n := 0
		for r, err := range s.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: orchestrator}}) {
			check(t, err)
			if want := payload(snapshot.Key{
				Orchestrator: orchestrator, Session: r.Session,
			}); string(r.Payload) != string(want) {
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

// A fence is compared as a whole number of 64 bits. So is a Seq.
func TestBigNumbers(t *testing.T) {
	t.Parallel()
	const top = 1<<63 - 1
	s := newStore(t)
	r := run("a", "r", fence(top-2))
	r.Seq = top - 2
	begin(t, s, r)
	_, err := s.Adopt(t.Context(), r.Key, fence(top-3), 9)
	want(t, err, lock.ErrFenced)
	_, err = s.Adopt(t.Context(), r.Key, fence(999), 9)
	want(t, err, lock.ErrFenced)
	r.Seq++
	r.Error = "second"
	check(t, s.Save(t.Context(), r))
	late := r
	late.Seq, late.Error = top-2, "late"
	check(t, s.Save(t.Context(), late))
	got, err := s.Adopt(t.Context(), r.Key, fence(top-1), 9)
	check(t, err)
	if got.Seq != top-1 || got.Fence != fence(top-1) || got.Error != "second" || got.Attempt != 2 {
		t.Errorf("adopted %+v", got)
	}
	_, err = s.Adopt(t.Context(), r.Key, fence(top-2), 9)
	want(t, err, lock.ErrFenced)
	_, err = s.Adopt(t.Context(), r.Key, fence(top), 9)
	check(t, err)

	check(t, s.Delete(t.Context(), r.Key, r.ID, fence(top)))
	for _, f := range []lock.Fence{fence(top - 1), fence(999), {Epoch: top, Nonce: "another"}} {
		_, err = s.Begin(t.Context(), run("a", "late", f))
		want(t, err, lock.ErrFenced)
		_, err = s.Adopt(t.Context(), r.Key, f, 9)
		want(t, err, lock.ErrFenced)
		want(t, s.Delete(t.Context(), r.Key, r.ID, f), lock.ErrFenced)
	}
	_, err = s.Begin(t.Context(), run("a", "late", fence(top)))
	want(t, err, lock.ErrFenced)
}

func key(session string) snapshot.Key { return snapshot.Key{Orchestrator: "bot", Session: session} }

func fence(epoch int64) lock.Fence {
	return lock.Fence{Epoch: epoch, Nonce: fmt.Sprint("nonce-", epoch)}
}

func run(session, id string, f lock.Fence) snapshot.Run {
	return snapshot.Run{
		Key: key(session), ID: id, Attempt: 1, Status: snapshot.Running, Fence: f,
		Payload: json.RawMessage(`{"step":0}`),
	}
}

func begin(t *testing.T, s snapshot.Store, r snapshot.Run) {
	t.Helper()
	found, err := s.Begin(t.Context(), r)
	check(t, err)
	if found != nil {
		t.Fatalf("Begin of %s finds %s", r.ID, found.ID)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got %v, want %v", err, target)
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	faulttest.SnapshotModel(t, func(t *testing.T) snapshot.Store {
		client, prefix := testenv.Redis(t)
		return redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix})
	})
}

func TestRacingBegins(t *testing.T) {
	t.Parallel()
	faulttest.RacingBegins(t, func(t *testing.T) snapshot.Store {
		client, prefix := testenv.Redis(t)
		return redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix})
	}, 10_000)
}
