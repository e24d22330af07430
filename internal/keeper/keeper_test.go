package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/lock"
)

const ttl = 30 * time.Second

// A lock that is renewed is held for as long as it likes; once renewals fail it ends within its time.
func TestEndsBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var renewed atomic.Pointer[time.Time]
		k := keeper.New(ttl, func(_ context.Context, _ time.Duration, held []keeper.Held) (kept, lost []keeper.Held) {
			if down.Load() {
				return nil, nil
			}
			now := time.Now()
			renewed.Store(&now)
			return held, nil
		})
		held, drop := k.Keep(t.Context(), keeper.Held{Key: "k", Token: "t"}, time.Now())
		defer drop()
		time.Sleep(time.Hour)
		if held.Err() != nil {
			t.Fatalf("ended with %v although it was renewed", context.Cause(held))
		}
		down.Store(true)
		<-held.Done()
		ended := time.Now()
		down.Store(false) // too late: nobody may renew what was given up
		last := renewed.Load()
		time.Sleep(time.Hour)
		if renewed.Load() != last {
			t.Error("a lock that was given up is renewed")
		}
		if since := ended.Sub(*renewed.Load()); since >= ttl || !errors.Is(context.Cause(held), lock.ErrLost) {
			t.Errorf("ended %v after the last renewal with %v", since, context.Cause(held))
		}
	})
}

// Its time counts from when the request was sent.
func TestCountsFromSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeper.New(ttl, func(ctx context.Context, _ time.Duration, _ []keeper.Held) (kept, lost []keeper.Held) {
			<-ctx.Done()
			return nil, nil
		})
		sent := time.Now()
		time.Sleep(ttl / 2) // the reply was slow
		held, drop := k.Keep(t.Context(), keeper.Held{Key: "k", Token: "t"}, sent)
		defer drop()
		<-held.Done()
		if since := time.Since(sent); since >= ttl {
			t.Errorf("ended %v after the request", since)
		}
	})
}

// What the server calls lost ends at once, and alone.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, stays := keeper.Held{Key: "gone", Token: "t"}, keeper.Held{Key: "stays", Token: "t"}
		k := keeper.New(ttl, func(context.Context, time.Duration, []keeper.Held) (kept, lost []keeper.Held) {
			return []keeper.Held{stays}, []keeper.Held{gone}
		})
		held, drop := k.Keep(t.Context(), gone, time.Now())
		defer drop()
		other, dropOther := k.Keep(t.Context(), stays, time.Now())
		defer dropOther()
		start := time.Now()
		<-held.Done()
		if time.Since(start) > ttl/3 || !errors.Is(context.Cause(held), lock.ErrLost) {
			t.Errorf("ended after %v with %v", time.Since(start), context.Cause(held))
		}
		time.Sleep(time.Hour)
		if other.Err() != nil {
			t.Errorf("the other ended with %v", context.Cause(other))
		}
	})
}

// A thousand locks are one goroutine, and none is left when they are given back.
func TestGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeper.New(ttl, func(_ context.Context, _ time.Duration, held []keeper.Held) (kept, lost []keeper.Held) {
			return held, nil
		})
		before := runtime.NumGoroutine()
		var drops []func()
		for i := range 1000 {
			_, drop := k.Keep(t.Context(), keeper.Held{Key: fmt.Sprint(i), Token: "t"}, time.Now())
			drops = append(drops, drop)
		}
		time.Sleep(time.Minute)
		if n := runtime.NumGoroutine() - before; n > 10 { // those of the runtime and of the test come and go
			t.Errorf("%d goroutines keep 1,000 locks", n)
		}
		for _, drop := range drops {
			drop()
			drop()
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 10 {
			t.Errorf("%d goroutines are left", n)
		}
	})
}
