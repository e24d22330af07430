package sqlitecheckpoint

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// The epochs of a store grow, also if the clock is set back.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := New(db, nil)
	sqlitetest.Exec(t, db, s.Schema())
	last := time.Now().Add(time.Hour).UnixMicro()
	s.epoch = last
	for range 3 {
		k := checkpoint.Key{Orchestrator: "bot", Session: "a"}
		c, err := s.Claim(t.Context(), k, checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if c.Fence.Epoch <= last {
			t.Errorf("epoch %d after %d", c.Fence.Epoch, last)
		}
		last = c.Fence.Epoch
		if err := s.Delete(t.Context(), c.Lease); err != nil {
			t.Fatal(err)
		}
	}
}
