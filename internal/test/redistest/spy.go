package redistest

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A Spy is a hook that keeps the requests it has seen.
type Spy struct{ Requests [][]any }

// DialHook implements [redis.Hook].
func (s *Spy) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (s *Spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.Requests = append(s.Requests, cmd.Args())
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (s *Spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Crowd lets eight callers act for a few steps at once, and waits for all.
func Crowd(act func() error) error {
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for range 6 {
				errs[i] = errors.Join(errs[i], act())
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
