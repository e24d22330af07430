package redisstore

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var pingScript = &Lua{redis.NewScript("return {'OK'}"), "return {'OK'}"}

// A policy that changes while a store is at work is found within a minute. From then on the store refuses the server,
// until the policy is mended.
func TestPolicyChanges(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	var clock atomic.Int64
	clock.Store(1)
	r := &Runner{Client: client, now: clock.Load}
	one := func() error {
		_, err := r.Run(t.Context(), pingScript, []string{"key"})
		return err
	}
	all := func() (err error) {
		r.RunAll(t.Context(), pingScript, []Call{{Keys: []string{"key"}}}, func(_ int, _ Reply, each error) {
			err = errors.Join(err, each)
		})
		return err
	}
	set := func(policy string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(when string, want error) {
		t.Helper()
		for what, call := range map[string]func() error{"Run": one, "RunAll": all} {
			if err := call(); !errors.Is(err, want) {
				t.Errorf("%s, %s: got %v, want %v", when, what, err, want)
			}
		}
	}
	asks := func(when string, want int, do func()) {
		t.Helper()
		if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		do()
		if n := redistest.Stats(t, client)["cmdstat_info"]; n != want {
			t.Errorf("%s the store asked %d times, and %d is right", when, n, want)
		}
	}
	wants("at first", nil)
	for range 3 {
		set("allkeys-lru")
		asks("within a minute", 0, func() {
			clock.Add(int64(lookEvery) - 1)
			wants("before a minute is over", nil)
		})
		clock.Add(1)
		wants("after a minute", ErrEviction)
		wants("after that", ErrEviction)
		set("noeviction")
		wants("mended", nil)
	}

	asks("for 50 callers", 1, func() {
		clock.Add(int64(time.Hour))
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if err := one(); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	})
}

// If no server answers, the next call asks again: the server may be another one by then.
func TestPolicyUnknown(t *testing.T) {
	t.Parallel()
	server, client := redistest.Server(t, redis.Options{MaxRetries: -1})
	var clock atomic.Int64
	clock.Store(1)
	r := &Runner{Client: client, now: clock.Load}
	if _, err := r.Run(t.Context(), pingScript, []string{"key"}); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	clock.Add(int64(lookEvery))
	if _, err := r.Run(t.Context(), pingScript, []string{"key"}); err == nil {
		t.Fatal("a server that is down answers")
	}
	if r.looked.Load() != 1 {
		t.Error("a server that is down has said that it does not evict")
	}
}
