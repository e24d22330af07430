package redissnapshot_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A write that a server refuses is not done, and its error says so.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, refusal := range redistest.Refusals {
		t.Run(refusal.Code, func(t *testing.T) {
			t.Parallel()
			client, refuse := refusal.Begin(t)
			s := redissnapshot.New(client, nil)
			r := run("a", "run", fence(1))
			begin(t, s, r)
			refuse()
			_, began := s.Begin(t.Context(), run("b", "other", fence(1)))
			for what, err := range map[string]error{"begin": began, "save": s.Save(t.Context(), step(r, 1))} {
				if !errors.Is(err, snapshot.ErrRefused) || !strings.Contains(err.Error(), refusal.Remedy) {
					t.Errorf("%s: got %v, want %v that says %q", what, err, snapshot.ErrRefused, refusal.Remedy)
				}
			}
		})
	}
}

// A server that takes no write can be read, also if a listing would remove stale entries.
func TestReadWhereRefused(t *testing.T) {
	t.Parallel()
	for _, refusal := range redistest.Refusals {
		if refusal.Code != "READONLY" && refusal.Code != "NOREPLICAS" {
			continue
		}
		t.Run(refusal.Code, func(t *testing.T) {
			t.Parallel()
			client, refuse := refusal.Begin(t)
			s := redissnapshot.New(client, nil)
			begin(t, s, run("a", "run", fence(1)))
			begin(t, s, run("b", "run", fence(1)))
			check(t, s.Delete(t.Context(), key("a"), "run", fence(1)))
			refuse()
			var got []string
			for r, err := range s.Runs(t.Context(), snapshot.Query{Key: key("")}) {
				check(t, err)
				got = append(got, r.Session)
			}
			if len(got) != 1 || got[0] != "b" {
				t.Errorf("listed %q", got)
			}
		})
	}
}

func TestRefusedCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	s := redissnapshot.New(client, nil)
	r := run("a", "run", fence(1))
	begin(t, s, r)
	redistest.LoseSlot(t, client, "{bot/a}")
	err := s.Save(t.Context(), step(r, 1))
	want(t, err, snapshot.ErrRefused)
	if !strings.Contains(err.Error(), "CLUSTERDOWN") {
		t.Errorf("got %v", err)
	}
}

// The refusal of a repeat says nothing about the first copy, which had no answer, and took effect.
func TestRefusedRepeat(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{MinRetryBackoff: -1})
	s := redissnapshot.New(client, nil)
	r := run("a", "run", fence(1))
	begin(t, s, r)
	check(t, s.Save(t.Context(), step(r, 1))) // Redis has the script now
	other := redis.NewClient(client.Options())
	defer other.Close()
	other.AddHook(&redistest.Deaf{Err: redistest.Reply("READONLY You can't write against a read only replica.")})
	err := redissnapshot.New(other, nil).Save(t.Context(), step(r, 2))
	if err == nil || errors.Is(err, snapshot.ErrRefused) || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("got %v, want an error that is not %v", err, snapshot.ErrRefused)
	}
	for got, err := range s.Runs(t.Context(), snapshot.Query{Key: key("a")}) {
		if check(t, err); got.Seq != 2 {
			t.Errorf("saved %d, want 2", got.Seq)
		}
	}
}
