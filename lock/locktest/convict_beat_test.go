package locktest_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

// Each of these stores breaks a promise about beats.
func TestBeatConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		clause string
		beat   func(m *lock.Processes) func(ctx context.Context, process string) (map[string]int64, error)
		rest   func(m *lock.Processes) func(ctx context.Context, process string) error
	}{
		"beats are seen late": {"beat", func(m *lock.Processes) func(context.Context, string) (map[string]int64, error) {
			return func(ctx context.Context, process string) (map[string]int64, error) {
				before, err := m.Beat(ctx, "")
				if err == nil {
					_, err = m.Beat(ctx, process)
				}
				return before, err
			}
		}, nil},
		"a beat is counted for all": {"beat", func(m *lock.Processes) func(context.Context, string) (map[string]int64, error) {
			return func(ctx context.Context, process string) (map[string]int64, error) {
				beats, err := m.Beat(ctx, "")
				for other := range beats {
					_, _ = m.Beat(ctx, other)
				}
				if err == nil {
					beats, err = m.Beat(ctx, process)
				}
				return beats, err
			}
		}, nil},
		"a beat is a mark, not a number": {"beat", func(m *lock.Processes) func(context.Context, string) (map[string]int64, error) {
			return func(ctx context.Context, process string) (map[string]int64, error) {
				beats, err := m.Beat(ctx, process)
				for name := range beats {
					beats[name] = 1
				}
				return beats, err
			}
		}, nil},
		"who looks beats": {"beat-look", func(m *lock.Processes) func(context.Context, string) (map[string]int64, error) {
			return func(ctx context.Context, process string) (map[string]int64, error) {
				if process == "" {
					process = "looker"
				}
				return m.Beat(ctx, process)
			}
		}, nil},
		"who does not beat sees nothing": {"beat-look", func(m *lock.Processes) func(context.Context, string) (map[string]int64, error) {
			return func(ctx context.Context, process string) (map[string]int64, error) {
				beats, err := m.Beat(ctx, process)
				if process == "" {
					return nil, err
				}
				return beats, err
			}
		}, nil},
		"rest is nothing": {"beat-rest", nil, func(m *lock.Processes) func(context.Context, string) error {
			return func(context.Context, string) error { return nil }
		}},
		"one rests for all": {"beat-rest", nil, func(m *lock.Processes) func(context.Context, string) error {
			return func(ctx context.Context, process string) error {
				beats, err := m.Beat(ctx, "")
				for name := range beats {
					err = m.Rest(ctx, name)
				}
				return err
			}
		}},
		"beats at once overwrite each other": {"beat-race", func(*lock.Processes) func(context.Context, string) (map[string]int64, error) {
			var mu sync.Mutex
			kept := map[string]int64{}
			meet := make(chan struct{})
			return func(ctx context.Context, process string) (map[string]int64, error) {
				mu.Lock()
				read := maps.Clone(kept)
				mu.Unlock()
				if process != "" {
					read[process]++
					select { // two read before one writes
					case meet <- struct{}{}:
					case <-meet:
					case <-ctx.Done():
					}
				}
				mu.Lock()
				defer mu.Unlock()
				kept = read
				return maps.Clone(read), nil
			}
		}, nil},
		"names have one case": {"beat-names", func(m *lock.Processes) func(context.Context, string) (map[string]int64, error) {
			return func(ctx context.Context, process string) (map[string]int64, error) {
				return m.Beat(ctx, strings.ToLower(process))
			}
		}, nil},
		"any name will do": {"beat-invalid", func(m *lock.Processes) func(context.Context, string) (map[string]int64, error) {
			return func(ctx context.Context, process string) (map[string]int64, error) {
				return m.Beat(ctx, strings.ToValidUTF8(process, "?"))
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := func() lock.Beater {
				m := new(lock.Processes)
				b := beating{m.Beat, m.Rest}
				if c.beat != nil {
					b.beat = c.beat(m)
				}
				if c.rest != nil {
					b.rest = c.rest(m)
				}
				return b
			}
			suite.Trial[lock.Beater]{Violations: locktest.BeatViolations}.
				Convict(t, c.clause, broken)
		})
	}
}

type beating struct {
	beat func(ctx context.Context, process string) (map[string]int64, error)
	rest func(ctx context.Context, process string) error
}

func (b beating) Beat(ctx context.Context, process string) (map[string]int64, error) {
	return b.beat(ctx, process)
}

func (b beating) Rest(ctx context.Context, process string) error { return b.rest(ctx, process) }
