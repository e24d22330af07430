package redischeckpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

var errCut = errors.New("connection reset")

// A scissors hook loses the answer to one request, and sends no request after it: the process has died.
type scissors struct{ at, n int }

var _ redis.Hook = (*scissors)(nil)

func (s *scissors) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *scissors) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if s.n++; s.n > s.at {
			return errCut
		}
		err := next(ctx, cmd)
		if s.n == s.at {
			return errCut
		}
		return err
	}
}

func (s *scissors) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next // an Append sends none
}

// An Append is cut off at every request. If the turn has settled, its session is listed, and its reply as owed.
func TestListedWhereverItIsCut(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]int{"first turn": 0, "first turn that is owed": 1} {
		t.Run(name, func(t *testing.T) {
			shared, prefix := testenv.Redis(t)
			s := redischeckpoint.New(shared, &redischeckpoint.Options{Prefix: prefix})
			unanswered := 0
			for at, whole := 1, false; !whole; at++ {
				k := key(fmt.Sprintf("s%02d", at))
				l := must[checkpoint.Claimed](t)(s.Claim(t.Context(), k, request("n", time.Hour))).Lease
				for n := range before {
					check(t, s.Append(t.Context(), l, turn(n, fmt.Sprint("r", n)), checkpoint.AppendOptions{}))
				}
				client := redis.NewClient(&redis.Options{Addr: shared.Options().Addr})
				client.AddHook(&scissors{at: at})
				cut := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
				err := cut.Append(t.Context(), l, turn(before, "r"), checkpoint.AppendOptions{Owes: true})
				client.Close()
				whole = err == nil
				_, load := checkpoint.Load(t.Context(), s, k, before)
				if !whole {
					want(t, err, errCut)
				}
				if !whole && load == nil {
					unanswered++
				}
				for _, owing := range []bool{false, true} {
					if load == nil && !slices.Contains(list(t, s, owing), k.Session) {
						t.Errorf("cut off at request %d: settled, and not listed, owing %t", at, owing)
					}
				}
			}
			if unanswered == 0 {
				t.Error("no cut came between the settle and its answer")
			}
		})
	}
}

// list returns the sessions. With owing, it returns only the sessions that owe a reply.
func list(t *testing.T, s *redischeckpoint.Store, owing bool) (sessions []string) {
	t.Helper()
	for id, err := range s.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: "bot", Owing: owing}) {
		check(t, err)
		sessions = append(sessions, id)
	}
	return sessions
}
