package oncehttp

import (
	"context"
	"log/slog"
	"strconv"
	"sync"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// With returns a context for calls of a model that belong to t. Each call is an effect of this name. Two calls of equal
// content need one context, or two names: under one name of two contexts the second is ledger.ErrRepeated.
//
// The calls are refused in Begin, as Once is. In a Turn made by hand they are made and not recorded.
func With[S any](ctx context.Context, t *orchestrator.Turn[S], name string) context.Context {
	return context.WithValue(ctx, scopeKey{}, &scope{
		name: name, log: t.Logger(), taken: make(map[string]map[int]bool),
		once: func(ctx context.Context, each string, keep bool, ask func() (record, error)) (record, error) {
			return orchestrator.Once(ctx, t, name, func(context.Context, string) (record, error) { return ask() },
				&orchestrator.OnceOptions[record]{Class: ledger.Pure, Each: each, KeepOnRetry: keep})
		},
	})
}

// Unrecorded returns a context for calls of a model that belong to no turn, such as those of a compaction. They are
// made as if there were no Recorder.
func Unrecorded(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, (*scope)(nil))
}

// Recorded reports whether calls with ctx belong to a turn: whether it comes from With.
func Recorded(ctx context.Context) bool {
	s, _ := scopeIn(ctx)
	return s != nil
}

type scopeKey struct{}

// scopeIn returns the scope of ctx; nil if its calls are not recorded. ok says that this was said.
func scopeIn(ctx context.Context) (s *scope, ok bool) {
	s, ok = ctx.Value(scopeKey{}).(*scope)
	return s, ok
}

// A scope are the calls of one With.
type scope struct {
	name string
	log  *slog.Logger
	once func(ctx context.Context, each string, keep bool, ask func() (record, error)) (record, error)

	mu sync.Mutex // protects following fields

	// taken are the numbers of the calls that are under way or recorded, by what they ask.
	taken map[string]map[int]bool

	// failed says that a reply could not be recorded. Nothing is asked after that: an SDK that tries again would pay
	// again.
	failed error
}

func (s *scope) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

func (s *scope) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// take returns the lowest number, from 1, that no call with sum has.
func (s *scope) take(sum string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[sum] == nil {
		s.taken[sum] = make(map[int]bool)
	}
	n := 1
	for s.taken[sum][n] {
		n++
	}
	s.taken[sum][n] = true
	return n
}

// free gives the number of a call that was not recorded to the next one.
func (s *scope) free(sum string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken[sum], n)
}

// each tells a call from the others of its place.
func each(sum string, n int) string { return sum + "#" + strconv.Itoa(n) }
