package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/stream"
)

// Once the store takes events again, it has those that came last, and all of the next turn. Operators are told of those
// that readers have missed.
func TestStreamBack(t *testing.T) {
	for _, hangs := range []time.Duration{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			var logs bytes.Buffer
			s := &backStream{refusing: refusingStream{hangs: hangs}}
			s.away.Store(true)
			bot := newWorld().Start(t, talksFor(300, time.Second), Options{
				Stream: s, Logger: slog.New(slog.NewTextHandler(&logs, nil)),
			})
			time.AfterFunc(200*time.Second, func() { s.away.Store(false) })
			execute(t, bot, Input{})
			time.Sleep(time.Minute)
			synctest.Wait()
			all, last := followed(t, bot, 0)
			said, kinds := spoken(all)
			if n := strings.Count(said, "word "); n < 50 || n > 150 || !strings.HasSuffix(kinds, "turn.settled") {
				t.Errorf("hangs %d: the reader saw %d of 300 words, and %q", hangs, n, kinds)
			}
			if !strings.Contains(logs.String(), `level=ERROR msg="events not shown: the stream store does not take them"`) {
				t.Errorf("hangs %d: logs:\n%s", hangs, &logs)
			}
			execute(t, bot, Input{})
			time.Sleep(time.Minute)
			all, _ = followed(t, bot, last)
			if said, kinds := spoken(all); said != strings.Repeat("word ", 300) || kinds != wholeTurn {
				t.Errorf("hangs %d: of the next turn the reader saw %q of %q", hangs, said, kinds)
			}
		})
	}
}

// backStream takes no Append while it is away.
type backStream struct {
	stream.Memory
	refusing refusingStream
	away     atomic.Bool
}

func (s *backStream) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, st stream.Status, data []json.RawMessage,
) (int64, error) {
	if s.away.Load() {
		return s.refusing.Append(ctx, k, run, epoch, st, data)
	}
	return s.Memory.Append(ctx, k, run, epoch, st, data)
}

// If readers have missed the end of a turn, the repeat of its input shows the end. The repeat of an earlier input does
// not: it would end the turn that is shown.
func TestEndShownByRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(backStream)
		w, d := newWorld(), talksFor(1, time.Second)
		first, second := Input{Text: "a", RequestID: "r"}, Input{Text: "b", RequestID: "r 2"}
		for _, in := range []Input{first, second} {
			bot := w.Start(t, d, Options{Stream: s})
			time.AfterFunc(500*time.Millisecond, func() { s.away.Store(true) })
			execute(t, bot, in)
			time.Sleep(2 * time.Minute) // until the end is given up
			s.away.Store(false)
		}
		bot := w.Start(t, d, Options{Stream: s})
		k := stream.Key{Orchestrator: bot.Name(), Session: "s"}
		last, _, status, err := s.Last(t.Context(), k)
		if err != nil || status != stream.Active || last == 0 {
			t.Fatalf("%d, %s, %v", last, status, err)
		}
		for _, c := range []struct {
			in     Input
			more   int64
			status stream.Status
		}{{first, 0, stream.Active}, {second, 1, stream.Ended}, {second, 1, stream.Ended}} {
			execute(t, bot, c.in)
			time.Sleep(time.Second)
			if n, _, s, err := s.Last(t.Context(), k); n != last+c.more || s != c.status || err != nil {
				t.Errorf("after the repeat of %q: %d, %s, %v, want %d, %s", c.in.Text, n, s, err, last+c.more, c.status)
			}
		}
		all, _ := followed(t, bot, last)
		if len(all) != 1 || all[0].Kind != orchestrator.TurnSettled || all[0].RequestID != "r 2" {
			t.Errorf("the end is shown as %v", all)
		}
	})
}
