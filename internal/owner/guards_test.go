package owner

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// seen is a look at beats, in a bubble. wrote says that the process beat too.
func (p *pulse) seen(beats map[string]int64, wrote bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(beats, time.Now(), wrote)
}

// looks looks at beats once a second, n times.
func (p *pulse) looks(n int, beats map[string]int64, wrote bool) {
	for range n {
		p.seen(beats, wrote)
		time.Sleep(time.Second)
	}
}

// Each process that stops is told of once, and wakes those who wait for one more.
func TestStopsOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := beating(new(checkpoint.Memory), "b", nil)
		p := b.pulse
		_, first := p.stop()
		p.looks(3, map[string]int64{"a": 1, "c": 1}, true)
		p.looks(4, map[string]int64{"a": 1, "c": 2}, true) // a stands still
		select {
		case <-first:
		default:
			t.Fatal("nobody is woken")
		}
		one, second := p.stop()
		if !one || p.stops != 1 {
			t.Fatalf("one has stopped: %t, %d", one, p.stops)
		}
		p.looks(2, map[string]int64{"a": 1, "c": 2}, true) // and now c does
		select {
		case <-second:
		default:
			t.Fatal("the second stop wakes nobody")
		}
		p.looks(3, map[string]int64{"a": 1, "c": 2}, true)
		if p.stops != 2 || !b.Stopped("a") || !b.Stopped("c") {
			t.Errorf("%d have stopped", p.stops)
		}
		p.seen(map[string]int64{"c": 2}, true) // a is forgotten by the store
		if b.Stopped("a") || len(p.others) != 1 {
			t.Errorf("a process that has rested is remembered: %v", p.others)
		}
		// What the dead have left is over after their leases.
		time.Sleep(time.Hour - time.Minute)
		if one, _ := p.stop(); !one {
			t.Error("leases of the dead are forgotten before they end")
		}
		time.Sleep(2 * time.Minute)
		if one, _ := p.stop(); one {
			t.Error("a process counts as stopped after its leases have ended")
		}
	})
}

// Only a process whose own beats are taken judges others, and only after they have been taken for a while.
func TestJudgesByOwnBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := beating(new(checkpoint.Memory), "b", nil)
		p, still := b.pulse, map[string]int64{"a": 1}
		if p.looks(10, still, false); b.Stopped("a") {
			t.Error("a process that does not beat judges another")
		}
		p.looks(1, still, true)
		if p.seen(still, true); b.Stopped("a") { // its beats are taken for a second
			t.Error("the first beats that are taken judge another")
		}
		time.Sleep(time.Second)
		if p.seen(still, true); !b.Stopped("a") {
			t.Error("a process that stands still for long is alive")
		}
		p.looks(1, map[string]int64{"a": 2}, false)
		p.looks(2, map[string]int64{"a": 2}, true)
		p.looks(1, map[string]int64{"a": 2}, false) // one look without a beat: it begins anew
		if p.looks(1, map[string]int64{"a": 2}, true); b.Stopped("a") {
			t.Error("a beat after one that was left out judges another")
		}
		time.Sleep(time.Second)
		if p.seen(map[string]int64{"a": 2}, true); !b.Stopped("a") {
			t.Error("it is never judged")
		}
	})
}

// After an error of the store the watch begins anew. The second error in a row is logged, and no other until a beat is
// taken again.
func TestBeatErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := beating(new(checkpoint.Memory), "b", nil)
		p := b.pulse
		var logs bytes.Buffer
		p.failed = func(err error) { logs.WriteString(err.Error() + "\n") }
		p.looks(3, map[string]int64{"a": 1}, true)
		w.set(true)
		for i, want := range []int{0, 1, 1} {
			if p.look(true); strings.Count(logs.String(), "\n") != want || p.others != nil || !p.taken.IsZero() {
				t.Errorf(
					"after error %d: %d lines, others %v, taken %v",
					i+1,
					strings.Count(logs.String(), "\n"),
					p.others,
					p.taken,
				)
			}
			pause := p.pace()
			if i == 0 {
				pause = p.pace() / 4 // soon: others may be waiting for it
			}
			if got := p.pause(); got != pause {
				t.Errorf("the next beat comes after %v, want %v", got, pause)
			}
		}
		w.set(false)
		if p.look(true); p.failures != 0 {
			t.Errorf("%d failures after a beat", p.failures)
		}
		w.set(true)
		p.look(true)
		if p.look(true); strings.Count(logs.String(), "\n") != 2 {
			t.Errorf("errors that come back are not logged: %q", logs.String())
		}
	})
}

// A look that does not beat shows that the store answers, and not that it takes beats: while another is suspected,
// failures are not forgotten for it.
func TestLookForgivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(checkpoint.Memory)
		a, _ := beating(m, "a", nil)
		b, _ := beating(m, "b", nil)
		own(t, a, "s")
		time.Sleep(2 * time.Second)
		b.pulse.looks(1, map[string]int64{"a": 100}, false)
		b.pulse.mu.Lock()
		b.pulse.others["a"].since = time.Now().Add(-3 * time.Second)
		b.pulse.others["a"].beats = 100
		b.pulse.failures = 2
		b.pulse.mu.Unlock()
		seen, err := m.Beat(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		b.pulse.mu.Lock()
		b.pulse.others["a"].beats = seen["a"]
		b.pulse.mu.Unlock()
		if b.pulse.look(false); b.pulse.failures != 2 {
			t.Errorf("%d failures are left", b.pulse.failures)
		}
		if b.pulse.look(true); b.pulse.failures != 0 {
			t.Errorf("%d failures are left after a beat", b.pulse.failures)
		}
	})
}

// If another is suspected, the next look comes when its time is up. One that has stopped is not waited for.
func TestPauseUntilTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := beating(new(checkpoint.Memory), "b", nil)
		p := b.pulse
		for _, c := range []struct {
			ago  time.Duration
			dead bool
			want time.Duration
		}{
			{0, false, time.Second},
			{3700 * time.Millisecond, false, 300 * time.Millisecond},
			{4 * time.Second, false, time.Second},
			{3700 * time.Millisecond, true, time.Second},
		} {
			p.others = map[string]*other{"a": {since: time.Now().Add(-c.ago), dead: c.dead}}
			if got := p.pause(); got != c.want {
				t.Errorf("still for %v, dead %t: the next look comes after %v, want %v", c.ago, c.dead, got, c.want)
			}
		}
	})
}

// A process beats at once if the store may know of beats of it. It does not beat after it has shut down.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := beating(new(checkpoint.Memory), "b", nil)
		p := b.pulse
		s := own(t, b, "s")
		if time.Sleep(time.Millisecond); w.beats() != 0 {
			t.Errorf("%d beats of a process that has just begun", w.beats())
		}
		time.Sleep(time.Second)
		s.Done()
		p.mu.Lock()
		p.timer.Stop()
		p.timer, p.known = nil, true
		p.mu.Unlock()
		before := w.beats()
		s = own(t, b, "s")
		if time.Sleep(time.Millisecond); w.beats() != before+1 {
			t.Errorf("%d beats at once, want one: others see old beats", w.beats()-before)
		}
		p.mu.Lock()
		timer := p.timer
		p.mu.Unlock()
		if p.wake(); p.timer != timer {
			t.Error("a second timer")
		}
		b.Rest()
		before = w.asked()
		p.timer.Stop()
		p.timer = nil
		p.wake()
		if time.Sleep(time.Minute); p.timer != nil || w.asked() != before {
			t.Errorf("%d calls after the end", w.asked()-before)
		}
		s.Done()
	})
}

// A process that only watches looks as long as it is asked to. One whose beats the store may know goes on until the
// store has forgotten them, also if an answer was lost.
func TestGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := beating(new(checkpoint.Memory), "b", nil)
		p := b.pulse
		b.Watch()
		if time.Sleep(9 * time.Second); w.asked() < 7 {
			t.Errorf("%d looks in 9 s", w.asked())
		}
		time.Sleep(5 * time.Second)
		before := w.asked()
		if time.Sleep(time.Minute); w.asked() != before || w.beats() > 0 {
			t.Errorf("%d looks later on, %d beats", w.asked()-before, w.beats())
		}
		w.set(true)
		if p.look(true); !p.known {
			t.Error("a beat whose answer is lost is forgotten")
		}
		if p.rest(); !p.known || p.rests != 1 {
			t.Errorf("a rest that fails: known %t, %d", p.known, p.rests)
		}
		w.set(false)
		if p.rest(); p.known {
			t.Error("a rest that the store has taken is repeated")
		}
		if p.rest(); p.rests != 2 {
			t.Errorf("%d rests of a process that the store does not know", p.rests)
		}
	})
}

// Three looks in a row have to see the same beats, however slow they are.
func TestFewestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := beating(new(checkpoint.Memory), "b", nil)
		for look, want := range []bool{false, false, true} {
			if b.pulse.seen(map[string]int64{"a": 1}, true); b.Stopped("a") != want {
				t.Errorf("after look %d: stopped %t", look+1, b.Stopped("a"))
			}
			time.Sleep(2500 * time.Millisecond)
		}
	})
}

// Without a patience no process is watched, and none beats.
func TestNoPatience(t *testing.T) {
	for _, d := range []time.Duration{0, -1} {
		p := newPulse(&Options{
			DeadAfter: d, Store: new(checkpoint.Memory), Logger: slog.New(slog.DiscardHandler),
		}, func() bool { return true })
		if p.store != nil {
			t.Errorf("DeadAfter %v: the process beats", d)
		}
	}
	if p := newPulse(&Options{DeadAfter: 1, Store: new(checkpoint.Memory)}, nil); p.store == nil {
		t.Error("a short patience is none")
	}
}

// A process takes a session only if it is still wanted: the claim is refused in favour of another owner by then, which
// may be at work on something else.
func TestTakeAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(checkpoint.Memory)
		a, _ := beating(m, "a", nil)
		b, _ := beating(m, "b", nil)
		held := own(t, a, "s")
		var taker Session
		if err := taker.Enter(t.Context(), b, "s"); err != nil {
			t.Fatal(err)
		}
		defer taker.Undo()
		asked := 0
		taken, err := taker.Take(func() (bool, error) {
			if asked++; asked == 1 { // the owner changes between the look and the claim
				held.Done()
				held = own(t, a, "s")
				return true, nil
			}
			return false, nil
		})
		if taken || err != nil || asked != 2 {
			t.Errorf("taken %t, %v, after %d questions", taken, err, asked)
		}
		if err := m.Mark(context.Background(), held.Grant.Lease, checkpoint.Marks{}); err != nil {
			t.Errorf("the new owner is fenced off: %v", err)
		}
		held.Done()
	})
}
