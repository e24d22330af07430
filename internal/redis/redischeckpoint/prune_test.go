package redischeckpoint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// If fewer turns are kept than before, readers, claims and repeats see none of the pruned turns at once. But one Append
// removes 1,000 at most, because the server does nothing else meanwhile. The next Appends remove the rest.
func TestPruneInBatches(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{PoolSize: 1})
	s := redischeckpoint.New(client, nil)
	ctx := t.Context()
	l := must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), request("n", time.Hour))).Lease
	n := 0
	settle := func(keep int) {
		t.Helper()
		check(t, s.Append(ctx, l, turn(n, fmt.Sprint("r", n)), checkpoint.AppendOptions{Keep: keep}))
		n++
	}
	const most = 1000
	turns := 2600
	if redistest.Soak() {
		turns = 60_000
	}
	for range turns {
		settle(checkpoint.KeepAll)
	}
	left := func() int64 { return client.HLen(ctx, "holdfast:{bot/a}:session").Val() }
	const ofTurn = 8 // fields, also of its ids
	head := left() - int64(turns*ofTurn)
	longest := time.Duration(0)
	for stored := turns; stored > 3; {
		check(t, client.ConfigResetStat(ctx).Err())
		start := time.Now()
		settle(3)
		longest = max(longest, time.Since(start))
		if calls := redistest.Stats(t, client)["cmdstat_hdel"]; calls > 3*most+10 {
			t.Errorf("one Append removes %d fields", calls)
		}
		stored = max(stored+1-most, 3)
		if got := left() - head; got != int64(stored*ofTurn) {
			t.Errorf("%d fields of turns are left, want those of %d", got, stored)
		}
		var kept []int
		for cp, err := range s.Turns(ctx, key("a"), checkpoint.Newest) {
			check(t, err)
			kept = append(kept, cp.Turn)
		}
		if fmt.Sprint(kept) != fmt.Sprint([]int{n - 1, n - 2, n - 3}) {
			t.Errorf("turns %d are kept", kept)
		}
		pruned := turn(n-4, fmt.Sprint("r", n-4))
		want(t, s.Append(ctx, l, pruned, checkpoint.AppendOptions{}), checkpoint.ErrConflict)
		r := request("n", time.Hour)
		r.RequestID = pruned.RequestID
		if c := must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), r)); c.Answered != nil {
			t.Errorf("answered by turn %d, which is pruned", c.Answered.Turn)
		}
	}
	t.Logf("of %d turns; the longest Append took %v", turns, longest)
}
