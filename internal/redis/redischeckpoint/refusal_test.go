package redischeckpoint_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// If a server refuses a write, nothing was written, and the error says so.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, refusal := range redistest.Refusals {
		t.Run(refusal.Code, func(t *testing.T) {
			t.Parallel()
			client, refuse := refusal.Begin(t)
			s := redischeckpoint.New(client, nil)
			l := must[checkpoint.Claimed](t)(s.Claim(t.Context(), key("a"), request("n", time.Hour))).Lease
			refuse()
			_, claim := s.Claim(t.Context(), key("b"), request("n", time.Hour))
			for what, err := range map[string]error{
				"claim":  claim,
				"append": s.Append(t.Context(), l, turn(0, "r0"), checkpoint.AppendOptions{}),
			} {
				if !errors.Is(err, checkpoint.ErrRefused) || !strings.Contains(err.Error(), refusal.Remedy) {
					t.Errorf("%s: got %v, want %v that says %q", what, err, checkpoint.ErrRefused, refusal.Remedy)
				}
			}
		})
	}
}

// A server that takes no write can be read, even if a listing would remove stale entries.
func TestReadWhereRefused(t *testing.T) {
	t.Parallel()
	for _, refusal := range redistest.Refusals {
		if refusal.Code != "READONLY" && refusal.Code != "NOREPLICAS" {
			continue
		}
		t.Run(refusal.Code, func(t *testing.T) {
			t.Parallel()
			client, refuse := refusal.Begin(t)
			s := redischeckpoint.New(client, nil)
			for _, session := range []string{"kept", "delivered", "gone"} {
				l := must[checkpoint.Claimed](t)(s.Claim(t.Context(), key(session), request("n", time.Hour))).Lease
				check(t, s.Append(t.Context(), l, turn(0, "r0"), checkpoint.AppendOptions{Owes: true}))
				if session == "delivered" {
					check(t, s.Mark(t.Context(), l, checkpoint.Marks{Delivered: 1}))
				}
			}
			check(t, client.Del(t.Context(), "holdfast:{bot/gone}:session").Err())
			refuse()
			if got := list(t, s, true); !slices.Equal(got, []string{"kept"}) {
				t.Errorf("owing: %q", got)
			}
			if got := list(t, s, false); !slices.Equal(got, []string{"delivered", "kept"}) {
				t.Errorf("sessions: %q", got)
			}
		})
	}
}

func TestRefusedCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	s := redischeckpoint.New(client, nil)
	l := must[checkpoint.Claimed](t)(s.Claim(t.Context(), key("a"), request("n", time.Hour))).Lease
	redistest.LoseSlot(t, client, "{bot/a}")
	err := s.Append(t.Context(), l, turn(0, "r0"), checkpoint.AppendOptions{})
	want(t, err, checkpoint.ErrRefused)
	if !strings.Contains(err.Error(), "CLUSTERDOWN") {
		t.Errorf("got %v", err)
	}
}

// A refusal of a repeat says nothing about the first copy, which had no answer, and took effect.
func TestRefusedRepeat(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{MinRetryBackoff: -1})
	s := redischeckpoint.New(client, nil)
	l := must[checkpoint.Claimed](t)(s.Claim(t.Context(), key("a"), request("n", time.Hour))).Lease
	check(t, s.Append(t.Context(), l, turn(0, "r0"), checkpoint.AppendOptions{})) // Redis has the scripts now
	other := redis.NewClient(client.Options())
	defer other.Close()
	other.AddHook(&redistest.Deaf{Err: redistest.Reply("LOADING Redis is loading the dataset in memory")})
	err := redischeckpoint.New(other, nil).Append(t.Context(), l, turn(1, "r1"), checkpoint.AppendOptions{})
	if err == nil || errors.Is(err, checkpoint.ErrRefused) || !strings.Contains(err.Error(), "LOADING") {
		t.Errorf("got %v, want an error that is not %v", err, checkpoint.ErrRefused)
	}
	must[checkpoint.Checkpoint](t)(checkpoint.Load(t.Context(), s, key("a"), 1))
}
