// Package locktest tests implementations of [lock.Locker] against their contract. It imports no driver.
package locktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
)

// Run checks every clause in its own subtest. newLocker must return a locker on which no key is held.
func Run(t *testing.T, newLocker func(t *testing.T) lock.Locker) { clauses.Run(t, newLocker) }

// Violation returns the fault that the named clause finds in l. Tests use it to show that a wrong locker is convicted.
func Violation(ctx context.Context, l lock.Locker, name string) error {
	for _, c := range clauses {
		if c.Name == name {
			return c.Violation(ctx, l)
		}
	}
	return fmt.Errorf("no clause %q", name)
}

type ctxKey struct{}

var clauses = suite.Clauses[lock.Locker]{
	{
		Name: "exclusive",
		Rule: "a key is held by one caller at a time, however many ask",
		Check: func(ctx context.Context, l lock.Locker) error {
			var inside, most, total atomic.Int32
			var wg sync.WaitGroup
			errs := make([]error, 16)
			for i := range errs {
				wg.Go(func() {
					for range 5 {
						_, unlock, err := l.Lock(ctx, "k")
						if err != nil {
							errs[i] = err
							return
						}
						n := inside.Add(1)
						for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
						}
						total.Add(1)
						inside.Add(-1)
						unlock()
					}
				})
			}
			wg.Wait()
			if most.Load() != 1 || total.Load() != 16*5 {
				return errors.Join(append(errs, fmt.Errorf("%d held at once, %d in all", most.Load(), total.Load()))...)
			}
			return errors.Join(errs...)
		},
	},
	{
		Name: "try",
		Rule: "TryLock returns ErrHeld at once while the key is held, and takes a free one",
		Check: func(ctx context.Context, l lock.Locker) error {
			held, unlock, err := l.TryLock(ctx, "k")
			if err != nil {
				return err
			}
			if _, _, err := l.TryLock(ctx, "k"); !errors.Is(err, lock.ErrHeld) {
				return fmt.Errorf("TryLock of a held key returns %v", err)
			}
			if held.Err() != nil {
				return fmt.Errorf("held is done: %w", context.Cause(held))
			}
			unlock()
			_, unlock, err = l.TryLock(ctx, "k")
			if err != nil {
				return fmt.Errorf("after unlock: %w", err)
			}
			unlock()
			return nil
		},
	},
	{
		Name: "unlock",
		Rule: "unlock ends held, may be called again without giving away another's lock, and needs no live ctx",
		Check: func(ctx context.Context, l lock.Locker) error {
			short, cancel := context.WithCancel(ctx)
			defer cancel()
			held, unlock, err := l.Lock(short, "k")
			if err != nil {
				return err
			}
			cancel()
			unlock()
			if held.Err() == nil {
				return errors.New("held goes on after unlock")
			}
			_, unlock2, err := l.Lock(ctx, "k")
			if err != nil {
				return err
			}
			defer unlock2()
			unlock()
			if _, _, err := l.TryLock(ctx, "k"); !errors.Is(err, lock.ErrHeld) {
				return fmt.Errorf("after the former holder unlocked again, TryLock returns %v", err)
			}
			return nil
		},
	},
	{
		Name: "held",
		Rule: "held derives from ctx: it has its values and ends with it",
		Check: func(ctx context.Context, l lock.Locker) error {
			short, cancel := context.WithCancelCause(context.WithValue(ctx, ctxKey{}, "v"))
			defer cancel(nil)
			held, unlock, err := l.Lock(short, "k")
			if err != nil {
				return err
			}
			defer unlock()
			if held.Value(ctxKey{}) != "v" {
				return errors.New("held does not have the values of ctx")
			}
			reason := errors.New("reason")
			cancel(reason)
			<-held.Done()
			if !errors.Is(context.Cause(held), reason) {
				return fmt.Errorf("held ended with %w", context.Cause(held))
			}
			return nil
		},
	},
	{
		Name: "give-up",
		Rule: "a waiter whose ctx ends gets the cause of it, and leaves the key to the others",
		Check: func(ctx context.Context, l lock.Locker) error {
			_, unlock, err := l.Lock(ctx, "k")
			if err != nil {
				return err
			}
			defer unlock()
			short, cancel := context.WithCancelCause(ctx)
			reason := errors.New("reason")
			failed := make(chan error, 1)
			go func() {
				_, _, err := l.Lock(short, "k")
				failed <- err
			}()
			cancel(reason)
			select {
			case err := <-failed:
				if !errors.Is(err, reason) {
					return fmt.Errorf("a waiter whose ctx ended gets %w", err)
				}
			case <-ctx.Done():
				return errors.New("a waiter whose ctx ended goes on waiting")
			}
			unlock()
			for _, lockIt := range []func(context.Context, string) (context.Context, func(), error){l.Lock, l.TryLock} {
				if _, _, err := lockIt(short, "k"); !errors.Is(err, reason) {
					return fmt.Errorf("with a ctx that is done: %v", err)
				}
			}
			_, unlock, err = l.Lock(ctx, "k")
			if err != nil {
				return err
			}
			unlock()
			return nil
		},
	},
	{
		Name: "hand-over",
		Rule: "a waiter gets the key when its holder unlocks, also when others give up at that moment",
		Check: func(ctx context.Context, l lock.Locker) error {
			for range 20 {
				_, unlock, err := l.Lock(ctx, "k")
				if err != nil {
					return err
				}
				short, cancel := context.WithCancel(ctx)
				defer cancel()
				var wg sync.WaitGroup
				var got error
				wg.Go(func() {
					if _, unlock, err := l.Lock(short, "k"); err == nil {
						unlock()
					}
				})
				wg.Go(func() {
					var unlock func()
					if _, unlock, got = l.Lock(ctx, "k"); got == nil {
						unlock()
					}
				})
				wg.Go(cancel)
				wg.Go(unlock)
				wg.Wait()
				if got != nil {
					return got
				}
			}
			return nil
		},
	},
	{
		Name: "keys",
		Rule: "keys are any strings and do not disturb one another",
		Check: func(ctx context.Context, l lock.Locker) error {
			keys := []string{
				"a", "a ", "a:b", "{a}", "{}", "%", "*", "a\x00b", "\xff", "😀", "a\n", strings.Repeat("x", 2000),
				lock.Key("bot", "s"), lock.Key("bo", "ts"),
			}
			for _, k := range keys {
				_, unlock, err := l.TryLock(ctx, k)
				if err != nil {
					return fmt.Errorf("%q: %w", k, err)
				}
				defer unlock()
			}
			return nil
		},
	},
}
