package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/test/bubble"
	"github.com/holdfast-go/holdfast/lock"
)

const ttl = 30 * time.Second

// reporting makes a Renewer of a function that knows everything at once.
func reporting(
	renew func(ctx context.Context, ttl time.Duration, all []string) (renewed, lost []string),
) keeper.Renewer[string] {
	return func(ctx context.Context, ttl time.Duration, all []string, report keeper.Report[string]) bool {
		sent := time.Now()
		renewed, lost := renew(ctx, ttl, all)
		report(sent, renewed, lost)
		return len(renewed)+len(lost) == len(all)
	}
}

// A lock that is renewed is held for as long as it likes; once renewals fail it ends within its time.
func TestEndsBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var renewed atomic.Pointer[time.Time]
		k := keeper.New(ttl, reporting(func(_ context.Context, _ time.Duration, held []string) (kept, lost []string) {
			if down.Load() {
				return nil, nil
			}
			now := time.Now()
			renewed.Store(&now)
			return held, nil
		}))
		held, drop := k.Context(t.Context(), "k", time.Now())
		defer drop()
		time.Sleep(time.Hour)
		if held.Err() != nil {
			t.Fatalf("ended with %v although it was renewed", context.Cause(held))
		}
		down.Store(true)
		<-held.Done()
		ended := time.Now()
		down.Store(false) // too late: a lock that was given up stays given up
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
		k := keeper.New(ttl, reporting(func(ctx context.Context, _ time.Duration, _ []string) (kept, lost []string) {
			<-ctx.Done()
			return nil, nil
		}))
		sent := time.Now()
		time.Sleep(ttl / 2) // the reply was slow
		held, drop := k.Context(t.Context(), "k", sent)
		defer drop()
		<-held.Done()
		if since := time.Since(sent); since >= ttl {
			t.Errorf("ended %v after the request", since)
		}
	})
}

// A lock that the server calls lost ends at once, and alone.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, stays := "gone", "stays"
		k := keeper.New(ttl, reporting(func(context.Context, time.Duration, []string) (kept, lost []string) {
			return []string{stays}, []string{gone}
		}))
		held, drop := k.Context(t.Context(), gone, time.Now())
		defer drop()
		other, dropOther := k.Context(t.Context(), stays, time.Now())
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

// The reply may come when hardly any time is left: before the first renewal would be.
func TestLateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeper.New(ttl, reporting(func(ctx context.Context, _ time.Duration, _ []string) (kept, lost []string) {
			<-ctx.Done()
			return nil, nil
		}))
		sent := time.Now()
		time.Sleep(ttl * 3 / 4)
		held, drop := k.Context(t.Context(), "k", sent)
		defer drop()
		<-held.Done()
		if since := time.Since(sent); since >= ttl {
			t.Errorf("ended %v after the request", since)
		}
	})
}

// What the server says of a lock that is being replaced is not heard, and its deadline stays.
func TestSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		k := keeper.New(ttl, reporting(func(_ context.Context, _ time.Duration, all []string) (kept, lost []string) {
			asked.Add(int32(len(all)))
			return nil, all
		}))
		var kept keeper.Kept[string]
		var lost error
		k.Keep(&kept, "old", time.Now(), func(err error) { lost = err })
		k.Settle(&kept)
		time.Sleep(ttl / 2)
		if err := k.Check(&kept); err != nil || lost != nil || asked.Load() != 0 {
			t.Errorf("%v, lost with %v, asked %d times", err, lost, asked.Load())
		}
		time.Sleep(ttl / 2)
		synctest.Wait()
		if err := k.Check(&kept); !errors.Is(err, lock.ErrExpired) {
			t.Errorf("after its deadline: %v", err)
		}
		k.Keep(&kept, "new", time.Now(), func(err error) { lost = err })
		if err := k.Check(&kept); err != nil {
			t.Errorf("the new one: %v", err)
		}
		time.Sleep(ttl)
		synctest.Wait()
		if !errors.Is(lost, lock.ErrLost) {
			t.Errorf("the new one was lost, and its owner heard %v", lost)
		}
		k.Drop(&kept)
	})
}

// A thousand locks are one goroutine, and none is left when they are given back.
func TestGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeper.New(ttl, reporting(func(_ context.Context, _ time.Duration, held []string) (kept, lost []string) {
			return held, nil
		}))
		before := bubble.Goroutines(t)
		var drops []func()
		for i := range 1000 {
			_, drop := k.Context(t.Context(), fmt.Sprint(i), time.Now())
			drops = append(drops, drop)
		}
		time.Sleep(time.Minute)
		if n := bubble.Goroutines(t) - before; n > 1 {
			t.Errorf("%d goroutines keep 1,000 locks", n)
		}
		for _, drop := range drops {
			drop()
			drop()
		}
		synctest.Wait()
		if n := bubble.Goroutines(t) - before; n > 0 {
			t.Errorf("%d goroutines are left", n)
		}
	})
}
