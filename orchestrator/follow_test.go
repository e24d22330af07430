package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/stream"
)

// A reader in another process sees the turn as it goes on, and ends with it. A later reader sees the same.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), new(stream.Memory)
		next := make(chan struct{})
		bot := w.Start(t, talks(next), Options{Stream: events})
		other := w.Start(t, talks(next), Options{Stream: events})
		call := bot.Stream(t.Context(), "s", Input{Text: "one two three", RequestID: "r"}, nil)
		next <- struct{}{}
		synctest.Wait()
		time.Sleep(time.Second)
		var text string
		for shown, err := range other.Follow(t.Context(), "s", stream.Newest) {
			if err != nil {
				t.Fatal(err)
			}
			text += shown.Event.Delta
			if shown.Event.Kind == orchestrator.Token && text != "one two three " {
				next <- struct{}{}
			}
		}
		if text != "one two three " {
			t.Errorf("the reader saw %q", text)
		}
		if _, err := call.Result(); err != nil {
			t.Fatal(err)
		}
		all, last := followed(t, other, 0)
		if text, kinds := spoken(all); text != "one two three " || kinds != wholeTurn {
			t.Errorf("a later reader saw %q of %q", text, kinds)
		}
		for range 2 { // the second is a repeat, and shows nothing
			input := Input{Text: "", RequestID: "again"}
			if _, err := bot.Execute(t.Context(), "s", input, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if more, _ := followed(t, other, last); len(more) == 0 || more[len(more)-1].Kind != orchestrator.TurnSettled {
			t.Errorf("the next turn shows %v", more)
		} else if _, kinds := spoken(more); kinds != wholeTurn {
			t.Errorf("the next turn shows %q", kinds)
		}
		if err := bot.Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		for _, err := range other.Follow(t.Context(), "s", last) {
			if !errors.Is(err, stream.ErrGone) {
				t.Errorf("after Delete: %v", err)
			}
		}
	})
}

// After a crash, a reader goes on with the events of the next owner. A crash before the settle shows no end.
func TestFollowAcrossOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), new(stream.Memory)
		open := make(chan struct{})
		close(open)
		grave := &grave{World: w}
		ends := grave.Ends()
		def := talks(open)
		def.Intents["say"] = Intent{Run: func(_ context.Context, t *Turn) error {
			t.Emit("void ")
			time.Sleep(time.Second)
			grave.Die()
			return errDead
		}}
		dying, err := orchestrator.New(def, ends.Checkpoints,
			&Options{Snapshots: ends.Snapshots, Stream: events, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dying.Execute(t.Context(), "s", Input{Text: "whole text", RequestID: "r"}, nil); err == nil {
			t.Fatal("the process did not die")
		}
		w.FreeUp(t, dying.Name())
		bot := w.Start(t, talks(open), Options{Stream: events})
		if _, err := bot.Resume(t.Context(), "s", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		all, _ := followed(t, bot, 0)
		text, kinds := spoken(all)
		if text != "void whole text " || !strings.HasPrefix(kinds, "turn.started routed intent.started") ||
			!strings.HasSuffix(kinds, "turn.resumed routed intent.started intent.ended turn.settled") {
			t.Errorf("the reader saw %q of %q", text, kinds)
		}
	})
}

// A reader of a session whose owner died between the settle and the last event ends when it is sure.
func TestFollowEndsWhenNothingIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, events := newWorld(), new(stream.Memory)
		bot := w.Start(t, echo(), Options{Stream: events})
		if _, err := bot.Execute(t.Context(), "s", Input{Text: "hello", RequestID: "r"}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		key := stream.Key{Orchestrator: bot.Name(), Session: "s"}
		doc := []json.RawMessage{json.RawMessage(`{"kind":"turn.started","run":"r2"}`)}
		last, err := events.Append(t.Context(), key, "r2", 1<<60, stream.Active, doc)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if all, _ := followed(t, bot, last-1); len(all) != 1 {
			t.Errorf("the reader saw %v", all)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the reader waited for %v", took)
		}
	})
}

// awayStream is a stream store that does not answer.
type awayStream struct {
	stream.Memory
	hang bool
}

var errNoEvents = errors.New("the stream store is away")

func (a *awayStream) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	if a.hang {
		<-ctx.Done()
	}
	return 0, errNoEvents
}

// A stream store that fails or hangs neither slows nor fails a turn, and Shutdown does not wait for it for long.
func TestStreamStoreAway(t *testing.T) {
	for _, hang := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			bot := w.Start(t, echo(), Options{Stream: &awayStream{hang: hang}})
			began := time.Now()
			for range 3 {
				if _, err := bot.Execute(t.Context(), "s", Input{Text: "hello"}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("hang %v: three turns took %v", hang, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := bot.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("hang %v: Shutdown took %v", hang, took)
			}
		})
	}
}

// A store that takes an Append and loses the reply shows nothing twice.
func TestStreamReplyLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		events := &muteStream{every: 2}
		bot := newWorld().Start(t, talksFor(200, 30*time.Millisecond), Options{
			Stream: events, Logger: slog.New(slog.NewTextHandler(&logs, nil)),
		})
		execute(t, bot, Input{})
		time.Sleep(time.Minute)
		synctest.Wait()
		all, _ := followed(t, bot, 0)
		if said, kinds := spoken(all); said != strings.Repeat("word ", 200) || kinds != wholeTurn {
			t.Errorf("the reader saw %q of %q", said, kinds)
		}
		if events.calls < 20 {
			t.Errorf("%d calls", events.calls)
		}
		if strings.Contains(logs.String(), "not shown") {
			t.Errorf("logs:\n%s", &logs)
		}
	})
}

// talksFor is a bot that says some words, with a pause after each. A pause of a second makes each word an Append.
func talksFor(words int, pause time.Duration) Def {
	return single(func(_ context.Context, t *Turn) error {
		for range words {
			t.Emit("word ")
			time.Sleep(pause)
		}
		return nil
	})
}

// muteStream loses the reply of each second Append.
type muteStream struct {
	stream.Memory
	every, calls int
}

func (f *muteStream) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	last, err := f.Memory.Append(ctx, k, run, epoch, s, data)
	if f.calls++; f.calls%f.every == 0 {
		return 0, errNoEvents
	}
	return last, err
}

// A token of any size and with any text is shown, cut into chunks, and so is the end behind it.
func TestStreamOfLongTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("é\x01", 3<<20)
		bot := newWorld().Start(t, single(func(_ context.Context, t *Turn) error {
			t.Emit("nul \x00 ")
			time.Sleep(time.Second)
			t.Emit(long)
			return nil
		}), Options{Stream: new(stream.Memory)})
		if _, err := bot.Execute(t.Context(), "s", Input{Text: "hello"}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		all, _ := followed(t, bot, 0)
		if text, kinds := spoken(all); text != "nul \ufffd "+long || !strings.HasSuffix(kinds, "turn.settled") {
			t.Errorf("%d bytes of %q", len(text), kinds)
		}
	})
}

// A reader sees that an attempt of an intent has failed, and not why.
func TestFollowFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried := 0
		d := single(func(context.Context, *Turn) error {
			if tried++; tried == 1 {
				return errors.New("what a user said")
			}
			return nil
		})
		for name, in := range d.Intents {
			in.Retry = retry.Policy{Attempts: 2}
			d.Intents[name] = in
		}
		bot := newWorld().Start(t, d, Options{Stream: new(stream.Memory)})
		if _, err := bot.Execute(t.Context(), "s", Input{Text: "hello"}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		all, _ := followed(t, bot, 0)
		var failed []bool
		for _, ev := range all {
			if ev.Kind == orchestrator.IntentEnded {
				failed = append(failed, ev.Err != nil)
			}
			if ev.Err != nil && strings.Contains(ev.Err.Error(), "user") {
				t.Errorf("the reader is told %v", ev.Err)
			}
		}
		if !slices.Equal(failed, []bool{true, false}) {
			t.Errorf("the attempts have failed: %v", failed)
		}
	})
}

// Without a stream store Follow says so.
func TestFollowWithoutStream(t *testing.T) {
	bot := newWorld().Start(t, echo(), Options{})
	for _, err := range bot.Follow(t.Context(), "s", 0) {
		if !errors.Is(err, orchestrator.ErrNoStream) {
			t.Errorf("%v, want ErrNoStream", err)
		}
	}
}

// refusingStream takes no Append. It hangs first.
type refusingStream struct {
	stream.Memory
	hangs time.Duration
	calls int
}

func (s *refusingStream) Append(
	ctx context.Context, _ stream.Key, _ string, _ int64, _ stream.Status, _ []json.RawMessage,
) (int64, error) {
	s.calls++
	if s.hangs > 0 {
		<-ctx.Done()
	}
	return 0, stream.ErrRefused
}

// The store takes nothing for long. Then all events that wait are dropped, and not each batch of them after so long.
func TestStreamAway(t *testing.T) {
	for _, hangs := range []time.Duration{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			s := &refusingStream{hangs: hangs}
			bot := newWorld().Start(t, single(func(_ context.Context, t *Turn) error {
				for range 2000 {
					t.Emit("word ")
				}
				return nil
			}), Options{Stream: s})
			execute(t, bot, Input{})
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			calls := s.calls
			time.Sleep(time.Hour)
			synctest.Wait()
			if s.calls != calls || calls < 16 {
				t.Errorf("%d calls in two minutes, and %d later", calls, s.calls-calls)
			}
		})
	}
}
