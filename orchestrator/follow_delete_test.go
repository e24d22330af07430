package orchestrator_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/stream"
)

// What a process that is still at work says of a session that another one has deleted is kept nowhere. The next life of
// the session is shown.
func TestFollowDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), new(stream.Memory)
		words := make(chan string)
		def := single(func(_ context.Context, t *Turn) error {
			for word := range words {
				t.Emit(word)
			}
			return nil
		})
		bot, other := w.Start(t, def, Options{Stream: events}), w.Start(t, def, Options{Stream: events})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a", RequestID: "r"}, nil)
			wantErr(t, err, orchestrator.ErrIndeterminate)
		})
		say := func(word string) {
			words <- word
			time.Sleep(time.Second) // until it is shown
		}
		say("before ")
		k := stream.Key{Orchestrator: def.Name, Session: "s"}
		if last, _, s, err := events.Last(t.Context(), k); err != nil || last == 0 || s != stream.Active {
			t.Fatalf("before Delete: %d, %s, %v", last, s, err)
		}
		if err := other.Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		say("after ")
		if last, _, s, err := events.Last(t.Context(), k); err != nil || last != 0 || s != stream.Ended {
			t.Errorf("after Delete: %d, %s, %v: what was said later is kept", last, s, err)
		}
		close(words)
		wg.Wait()
		execute(t, other, Input{Text: "b", RequestID: "r 2"})
		time.Sleep(time.Second)
		if all, _ := followed(t, other, 0); len(all) == 0 || all[len(all)-1].Kind != orchestrator.TurnSettled {
			t.Errorf("the next life shows %v", all)
		}
	})
}

// talker is a bot whose function goes on talking, whatever becomes of its session, until quiet is closed.
func talker(quiet <-chan struct{}) Def {
	return single(func(_ context.Context, t *Turn) error {
		for {
			select {
			case <-quiet:
				return nil
			case <-time.After(20 * time.Millisecond):
				t.Emit("and another thing ")
			}
		}
	})
}

// A function that goes on talking cannot keep Delete from forgetting what it says.
func TestFollowDeletedTalker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, quiet := new(stream.Memory), make(chan struct{})
		def := talker(quiet)
		bot := newWorld().Start(t, def, Options{Stream: events})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a", RequestID: "r"}, nil)
			wantErr(t, err, orchestrator.ErrIndeterminate)
		})
		time.Sleep(time.Second)
		if err := bot.Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			last, _, s, err := events.Last(t.Context(), stream.Key{Orchestrator: def.Name, Session: "s"})
			if err != nil || last != 0 || s != stream.Ended {
				t.Errorf("after Delete: %d, %s, %v", last, s, err)
			}
			time.Sleep(2 * time.Second)
		}
		close(quiet)
		wg.Wait()
		time.Sleep(time.Second) // until the process shows no more
	})
}

// A stream store that is slow keeps nothing of a deleted session, also of what Delete itself has told.
func TestFollowDeletedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := new(stream.Memory)
		def := single(func(ctx context.Context, t *Turn) error {
			t.Emit("hello ")
			<-ctx.Done()
			return ctx.Err()
		})
		bot := newWorld().Start(t, def, Options{Stream: sluggish{events}})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a", RequestID: "r"}, nil)
			wantErr(t, err, orchestrator.ErrIndeterminate)
		})
		time.Sleep(10 * time.Second)
		if err := bot.Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		time.Sleep(20 * time.Second)
		last, _, s, err := events.Last(t.Context(), stream.Key{Orchestrator: def.Name, Session: "s"})
		if err != nil || last != 0 || s != stream.Ended {
			t.Errorf("after Delete: %d, %s, %v", last, s, err)
		}
	})
}

// sluggish is a stream store that takes two seconds for an Append of chunks.
type sluggish struct{ stream.Store }

func (s sluggish) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, st stream.Status, data []json.RawMessage,
) (int64, error) {
	if len(data) > 0 {
		time.Sleep(2 * time.Second)
	}
	return s.Store.Append(ctx, k, run, epoch, st, data)
}

// The next life of a session may begin in another process at once. Its events stay, also if a function of the former
// life goes on talking.
func TestFollowDeletedNextLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events, quiet := newWorld(), new(stream.Memory), make(chan struct{})
		bot := w.Start(t, talker(quiet), Options{Stream: events})
		other := w.Start(t, single(func(_ context.Context, t *Turn) error {
			t.Emit("new")
			return nil
		}), Options{Stream: events})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a", RequestID: "r"}, nil)
			wantErr(t, err, orchestrator.ErrIndeterminate)
		})
		time.Sleep(time.Second)
		wg.Go(func() {
			if err := bot.Delete(t.Context(), "s"); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(100 * time.Millisecond)
		execute(t, other, Input{Text: "b", RequestID: "r 2"})
		time.Sleep(10 * time.Second)
		all, _ := followed(t, other, 0)
		if said, kinds := spoken(all); said != "new" || kinds != wholeTurn {
			t.Errorf("of the next life %q of %q is shown", said, kinds)
		}
		close(quiet)
		wg.Wait()
		time.Sleep(time.Second) // until the process shows no more
	})
}

// If the checkpoint store refuses to delete a session, its events stay too.
func TestFollowDeleteRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), new(stream.Memory)
		bot := w.Start(t, echo(), Options{Stream: events})
		execute(t, bot, Input{Text: "a"})
		time.Sleep(time.Second) // until they are shown
		before, _ := followed(t, bot, 0)
		w.Checkpoints = faulttest.Checkpoints(w.Checkpoints, faulttest.Fail(checkpoint.ErrRefused, "Remove"))
		wantErr(t, w.Start(t, echo(), Options{Stream: events}).Delete(t.Context(), "s"), checkpoint.ErrRefused)
		if after, _ := followed(t, bot, 0); len(after) == 0 || len(after) != len(before) {
			t.Errorf("%d of %d events are left", len(after), len(before))
		}
	})
}

// A stream store that hangs holds no session that is deleted: an input goes on at once. The lease of a damaged session,
// which nobody renews, need not last as long.
func TestFollowDeleteHangs(t *testing.T) {
	for name, claim := range map[string]func(checkpoint.Store) checkpoint.Store{
		"whole":   func(s checkpoint.Store) checkpoint.Store { return s },
		"damaged": func(s checkpoint.Store) checkpoint.Store { return unreadable{s} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				other := w.Start(t, echo(), Options{})
				execute(t, other, Input{Text: "a"})
				w.Checkpoints = claim(w.Checkpoints)
				bot := w.Start(t, echo(), Options{
					Stream: undying{new(stream.Memory)}, Limits: orchestrator.Limits{LeaseTTL: 4 * time.Second},
				})
				var wg sync.WaitGroup
				wg.Go(func() {
					if err := bot.Delete(t.Context(), "s"); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(100 * time.Millisecond)
				start := time.Now()
				execute(t, other, Input{Text: "b"})
				if took := time.Since(start); took > time.Second {
					t.Errorf("an input waited for %v", took)
				}
				wg.Wait()
			})
		})
	}
}

// undying is a stream store that hangs in Delete.
type undying struct{ stream.Store }

func (undying) Delete(ctx context.Context, _ stream.Key) error {
	<-ctx.Done()
	return ctx.Err()
}
