package pgcheckpoint_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

// A database that cannot store every text is refused before anything is written to it.
func TestEncoding(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		p := pgtest.PoolOn(t, server.Database(encoding))
		s := pgcheckpoint.New(p, &pgcheckpoint.Options{TTL: time.Hour})
		create(t, p, s)
		l := checkpoint.Lease{Key: key("a"), Fence: lock.Fence{Epoch: 1, Nonce: "n"}}
		_, claimed := s.Claim(t.Context(), l.Key, request())
		_, renewed := s.Renew(t.Context(), time.Hour, []checkpoint.Lease{l})
		_, held := s.Held(t.Context(), l.Orchestrator, []string{"a"})
		_, headed := s.Head(t.Context(), l.Key)
		_, loaded := checkpoint.Load(t.Context(), s, l.Key, 0)
		_, swept := s.Sweep(t.Context(), 1)
		_, raised := s.Raise(t.Context(), time.Time{})
		for i, err := range []error{
			claimed, renewed, held, headed, loaded, swept, raised,
			s.Append(t.Context(), l, turn(0), checkpoint.AppendOptions{}),
			s.Mark(t.Context(), l, checkpoint.Marks{Release: true}), s.Delete(t.Context(), l),
		} {
			if !errors.Is(err, pgcheckpoint.ErrEncoding) || !strings.Contains(err.Error(), encoding+", which") {
				t.Errorf("%s, method %d: %v, want %v", encoding, i, err, pgcheckpoint.ErrEncoding)
			}
		}
	}
}
