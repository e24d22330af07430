package bootdrain_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
)

// A mute is an error whose methods panic.
type mute struct{}

func (mute) Error() string   { panic("my secret") }
func (mute) Is(error) bool   { panic("my secret") }
func (m mute) Unwrap() error { return m }

// panicking is a ward of which one thing panics or returns a mute until it is healed.
type panicking struct {
	ward
	fails func() error // in Recover
	lists func() error

	healed atomic.Bool
}

func (p *panicking) Recover(ctx context.Context, session string) (string, error) {
	if err := p.fails(); err != nil {
		return "damaged", err
	}
	return p.ward.Recover(ctx, session)
}

func (p *panicking) Recoverable(ctx context.Context, all bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := p.lists(); err != nil {
			yield("", err)
			return
		}
		p.ward.Recoverable(ctx, all)(yield)
	}
}

// A drain goes on, and its process lives, whatever the program and its stores do.
func TestForeignFunctions(t *testing.T) {
	for how, bad := range map[string]func() error{
		"panics":                 func() error { panic("my secret") },
		"panics with an error":   func() error { panic(mute{}) },
		"returns an error":       func() error { return mute{} },
		"returns a joined error": func() error { return errors.Join(errors.New("bad"), mute{}) },
	} {
		for what, set := range map[string]func(o *bootdrain.Options, p *panicking, does func() error){
			"Recover": func(_ *bootdrain.Options, p *panicking, does func() error) { p.fails = does },
			"listing": func(_ *bootdrain.Options, p *panicking, does func() error) { p.lists = does },
			"Sessions": func(o *bootdrain.Options, p *panicking, does func() error) {
				p.lists, o.Sessions = does, p.Recoverable(t.Context(), true)
			},
			"Context": func(o *bootdrain.Options, _ *panicking, does func() error) {
				o.Context = func(ctx context.Context, _ string) context.Context { must(does()); return ctx }
			},
			"Context returns nil": func(o *bootdrain.Options, _ *panicking, does func() error) {
				o.Context = func(ctx context.Context, _ string) context.Context {
					if does() != nil {
						return nil
					}
					return ctx
				}
			},
			"OnRun": func(o *bootdrain.Options, _ *panicking, does func() error) {
				o.OnRun = func(bootdrain.Run) { must(does()) }
			},
			"Sweep": func(o *bootdrain.Options, _ *panicking, does func() error) {
				o.Sweep = func(context.Context, int) (int, error) { return 0, does() }
			},
			"LogError": func(o *bootdrain.Options, p *panicking, does func() error) {
				o.LogError = func(error) string { must(does()); return "" }
				p.fails = func() error {
					if p.healed.Load() {
						return nil
					}
					return errors.New("away")
				}
			},
		} {
			t.Run(what+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					well := func() error { return nil }
					p := &panicking{ward: ward{done: make(map[string]time.Duration)}, fails: well, lists: well}
					p.sessions, p.from = []string{"a", "b"}, time.Now()
					var logs strings.Builder
					o := &bootdrain.Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))}
					set(o, p, func() error {
						if p.healed.Load() {
							return nil
						}
						return bad()
					})
					report, err := bootdrain.DrainInterrupted(t.Context(), p, o)
					for _, r := range report.Runs {
						if r.Err == nil && r.Outcome != "settled" {
							t.Errorf("%+v", r)
						}
					}
					if (what == "listing" || what == "Sessions") != (err != nil) {
						t.Errorf("the drain returns %v", err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
					defer cancel()
					time.AfterFunc(5*time.Minute, func() { p.healed.Store(true) })
					if err := bootdrain.Watch(ctx, p, o); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("the watch returns %v", err)
					}
					if len(p.done) != 2 {
						t.Errorf("%d sessions are done", len(p.done))
					}
					if logs.Len() == 0 || strings.Contains(logs.String(), "my secret") {
						t.Errorf("it logs %s", logs.String())
					}
				})
			})
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
