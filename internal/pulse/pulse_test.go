package pulse

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

var errGone = errors.New("no such server")

// A wire is the way of one process to a database. When it is cut, nothing gets through.
type wire struct {
	lock.Beater

	mu    sync.Mutex // protects following fields
	cut   bool
	sent  int // beats
	asked int
}

func (w *wire) ask(beat bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.cut {
		return errGone
	}
	if beat {
		w.sent++
	}
	return nil
}

func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

// counts returns how many beats came through, and how many calls there were.
func (w *wire) counts() (sent, asked int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent, w.asked
}

func (w *wire) Beat(ctx context.Context, process string) (map[string]int64, error) {
	if err := w.ask(process != ""); err != nil {
		return nil, err
	}
	return w.Beater.Beat(ctx, process)
}

func (w *wire) Rest(ctx context.Context, process string) error {
	if err := w.ask(false); err != nil {
		return err
	}
	return w.Beater.Rest(ctx, process)
}

// A part of a process has calls, or none.
type part struct {
	*Member
	mu     sync.Mutex // protects following fields
	calls  int
	called bool
	failed int
}

func join(p *Pulse, patience time.Duration) *part {
	m := new(part)
	m.Member = p.Join(Options{
		Patience: patience, Left: time.Hour + patience,
		Calls: func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			called := m.called || m.calls > 0
			m.called = false
			return called
		},
		Failed: func(error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.failed++
		},
	})
	return m
}

// call begins a call, and returns what ends it.
func (m *part) call() (end func()) {
	m.mu.Lock()
	m.calls++
	m.called = true
	m.mu.Unlock()
	m.Wake()
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.calls--
	}
}

func (m *part) failures() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

const patience = 4 * time.Second

// beating returns a part of a process that is alone in it, on a wire of its own to b.
func beating(b lock.Beater, name string) (*part, *Pulse, *wire) {
	w := &wire{Beater: b}
	p := Named(w, name)
	return join(p, patience), p, w
}

func alone() (*part, *Pulse, *wire) { return beating(new(lock.Processes), "b") }

// seen is a look at beats, in a bubble. wrote says that the process beat too.
func (p *Pulse) seen(beats map[string]int64, wrote bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.patience = patience
	p.note(beats, time.Now(), wrote)
}

// looks looks at beats once a second, n times.
func (p *Pulse) looks(n int, beats map[string]int64, wrote bool) {
	for range n {
		p.seen(beats, wrote)
		time.Sleep(time.Second)
	}
}

func (p *Pulse) mayKnow(t *testing.T, want bool) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != want {
		t.Errorf("the store may know of beats: %t, want %t", p.known, want)
	}
}

// Each process that stops is told of once, and wakes those who wait for one more.
func TestStopsOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p, _ := alone()
		_, first := m.Stop()
		p.looks(3, map[string]int64{"a": 1, "c": 1}, true)
		p.looks(4, map[string]int64{"a": 1, "c": 2}, true) // a stands still
		select {
		case <-first:
		default:
			t.Fatal("nobody is woken")
		}
		one, second := m.Stop()
		if !one || m.watch.stops != 1 {
			t.Fatalf("one has stopped: %t, %d", one, m.watch.stops)
		}
		p.looks(2, map[string]int64{"a": 1, "c": 2}, true) // and now c does
		select {
		case <-second:
		default:
			t.Fatal("the second stop wakes nobody")
		}
		p.looks(3, map[string]int64{"a": 1, "c": 2}, true)
		if m.watch.stops != 2 || m.Stopped("a") == 0 || m.Stopped("c") == 0 {
			t.Errorf("%d have stopped", m.watch.stops)
		}
		p.seen(map[string]int64{"c": 2}, true) // a is forgotten by the store
		if m.Stopped("a") > 0 || len(p.others) != 1 {
			t.Errorf("a process that has rested is remembered: %v", p.others)
		}
		// What the dead have left is over after their leases.
		time.Sleep(time.Hour - time.Minute)
		if one, _ := m.Stop(); !one {
			t.Error("leases of the dead are forgotten before they end")
		}
		time.Sleep(2 * time.Minute)
		if one, _ := m.Stop(); one {
			t.Error("a process counts as stopped after its leases have ended")
		}
	})
}

// Only a process whose own beats are taken judges others, and only after they have been taken for a while.
func TestJudgesByOwnBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p, _ := alone()
		still := map[string]int64{"a": 1}
		if p.looks(10, still, false); m.Stopped("a") > 0 {
			t.Error("a process that does not beat judges another")
		}
		p.looks(1, still, true)
		if p.seen(still, true); m.Stopped("a") > 0 { // its beats are taken for a second
			t.Error("the first beats that are taken judge another")
		}
		time.Sleep(time.Second)
		if p.seen(still, true); m.Stopped("a") == 0 {
			t.Error("a process that stands still for long is alive")
		}
		p.looks(1, map[string]int64{"a": 2}, false)
		p.looks(2, map[string]int64{"a": 2}, true)
		p.looks(1, map[string]int64{"a": 2}, false) // one look without a beat: it begins anew
		if p.looks(1, map[string]int64{"a": 2}, true); m.Stopped("a") > 0 {
			t.Error("a beat after one that was left out judges another")
		}
		time.Sleep(time.Second)
		if p.seen(map[string]int64{"a": 2}, true); m.Stopped("a") == 0 {
			t.Error("it is never judged")
		}
	})
}

// If this process stands still, or the whole machine, the watch begins anew.
func TestLookThatCameLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p, _ := alone()
		still := map[string]int64{"a": 7}
		p.looks(4, still, true)
		time.Sleep(time.Minute)
		for range 4 {
			if p.seen(still, true); m.Stopped("a") > 0 {
				t.Fatal("a pause of the one who looks counts")
			}
			time.Sleep(time.Second)
		}
		if p.seen(still, true); m.Stopped("a") == 0 {
			t.Error("beats that stand still for four seconds mean nothing")
		}
	})
}

// After an error of the store the watch begins anew. The second error in a row is told, and no other until a beat is
// taken again.
func TestBeatErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p, w := alone()
		p.members[m.Member] = struct{}{}
		p.looks(3, map[string]int64{"a": 1}, true)
		w.set(true)
		for i, want := range []int{0, 1, 1} {
			if p.look(true); m.failures() != want || p.others != nil || !p.taken.IsZero() {
				t.Errorf("after error %d: told %d, others %v, taken %v", i+1, m.failures(), p.others, p.taken)
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
		if p.look(true); m.failures() != 2 {
			t.Errorf("errors that come back are told %d times in all", m.failures())
		}
	})
}

// A look that does not beat shows that the store answers, and not that it takes beats: while another is suspected,
// failures are not forgotten for it.
func TestLookForgivesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := new(lock.Processes)
		m, p, _ := beating(db, "b")
		p.members[m.Member] = struct{}{}
		seen, err := db.Beat(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		p.looks(1, seen, false)
		p.others["a"].since = time.Now().Add(-3 * time.Second)
		p.failures = 2
		if p.look(false); p.failures != 2 {
			t.Errorf("%d failures are left", p.failures)
		}
		if p.look(true); p.failures != 0 {
			t.Errorf("%d failures are left after a beat", p.failures)
		}
	})
}

// If another is suspected, the next look comes when its time is up. One that has stopped is not waited for.
func TestPauseUntilTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p, _ := alone()
		p.members[m.Member] = struct{}{}
		for _, c := range []struct {
			ago   time.Duration
			stood time.Duration
			want  time.Duration
		}{
			{0, 0, time.Second},
			{3700 * time.Millisecond, 0, 300 * time.Millisecond},
			{4 * time.Second, 0, time.Second},
			{3700 * time.Millisecond, patience, time.Second},
		} {
			p.others = map[string]*other{"a": {since: time.Now().Add(-c.ago), stood: c.stood}}
			if got := p.pause(); got != c.want {
				t.Errorf("still for %v, judged by %v: a look after %v, want %v", c.ago, c.stood, got, c.want)
			}
		}
	})
}

// A process beats at once if the store may know of beats of it. It does not beat after it has shut down.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p, w := alone()
		end := m.call()
		time.Sleep(time.Millisecond)
		if sent, _ := w.counts(); sent != 0 {
			t.Errorf("%d beats of a process that has just begun", sent)
		}
		time.Sleep(time.Second)
		end()
		p.mu.Lock()
		p.stop()
		clear(p.members)
		p.known = true
		p.mu.Unlock()
		before, _ := w.counts()
		end = m.call()
		time.Sleep(time.Millisecond)
		if sent, _ := w.counts(); sent != before+1 {
			t.Errorf("%d beats at once, want one: others see old beats", sent-before)
		}
		p.mu.Lock()
		timers := p.timers
		p.mu.Unlock()
		if m.Wake(); p.timers != timers {
			t.Error("a second timer")
		}
		m.End()
		_, before = w.counts()
		m.Wake()
		time.Sleep(time.Minute)
		if _, asked := w.counts(); p.timer != nil || asked != before {
			t.Errorf("%d calls after the end", asked-before)
		}
		end()
	})
}

// A process that only watches looks as long as it is asked to. One whose beats the store may know goes on until the
// store has forgotten them, also if an answer was lost.
func TestGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p, w := alone()
		m.Watch()
		time.Sleep(9 * time.Second)
		if _, asked := w.counts(); asked < 7 {
			t.Errorf("%d looks in 9 s", asked)
		}
		time.Sleep(5 * time.Second)
		_, before := w.counts()
		time.Sleep(time.Minute)
		if sent, asked := w.counts(); asked != before || sent > 0 {
			t.Errorf("%d looks later on, %d beats", asked-before, sent)
		}
		w.set(true)
		p.look(true) // a beat whose answer is lost is not forgotten
		p.mayKnow(t, true)
		p.rest() // and a rest that fails is repeated
		p.mayKnow(t, true)
		w.set(false)
		p.rest()
		p.mayKnow(t, false)
		if p.rest(); p.rests != 2 {
			t.Errorf("%d rests of a process that the store does not know", p.rests)
		}
	})
}

// Three looks in a row have to see the same beats, however slow they are.
func TestFewestLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p, _ := alone()
		for look, want := range []bool{false, false, true} {
			if p.seen(map[string]int64{"a": 1}, true); m.Stopped("a") > 0 != want {
				t.Errorf("after look %d: stopped %t", look+1, !want)
			}
			time.Sleep(2500 * time.Millisecond)
		}
	})
}

// All members of a process beat as one, and watch as one. Each goes on as long as it has to.
func TestMembersBeatAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := new(lock.Processes)
		_, p, w := beating(db, "p")
		a, b := join(p, patience), join(p, patience)
		beats := func() map[string]int64 {
			t.Helper()
			all, err := db.Beat(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		// Neither comes at the time of a beat of the other.
		endA := a.call()
		time.Sleep(700 * time.Millisecond)
		endB := b.call()
		time.Sleep(2 * time.Second)
		before, _ := w.counts()
		time.Sleep(30 * time.Second)
		if sent, _ := w.counts(); sent-before != 30 {
			t.Errorf("%d beats in 30 s of two members", sent-before)
		}
		if all := beats(); len(all) != 1 || all["p"] == 0 {
			t.Errorf("the beats are %v, want those of p", all)
		}
		for range 100 { // short calls of one make it beat no faster
			b.call()()
			time.Sleep(100 * time.Millisecond)
		}
		if sent, _ := w.counts(); sent-before != 40 {
			t.Errorf("%d beats in 40 s", sent-before)
		}

		endA()
		a.End() // the other goes on
		time.Sleep(10 * time.Second)
		if sent, _ := w.counts(); sent-before != 50 || len(beats()) != 1 {
			t.Errorf("%d beats in 50 s, known %v", sent-before, beats())
		}
		endB()
		time.Sleep(2 * time.Second)
		if all := beats(); len(all) != 0 {
			t.Errorf("a process without calls is known: %v", all)
		}
		endB = b.call()
		time.Sleep(2 * time.Second)
		endB()
		b.End()
		if all := beats(); len(all) != 0 {
			t.Errorf("a process is known when its last member has ended: %v", all)
		}
		_, before = w.counts()
		time.Sleep(time.Hour)
		if _, asked := w.counts(); asked != before {
			t.Errorf("%d calls after the end", asked-before)
		}
	})
}

// A member that ends while a beat is under way ends neither the beats of the others nor makes two of them.
func TestMemberEndsAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p, w := alone()
		stays := join(p, patience)
		defer stays.call()()
		time.Sleep(250 * time.Millisecond) // the first beat
		for i := range 40 {
			m := join(p, patience)
			end := m.call()
			time.Sleep(time.Duration(i%7) * 50 * time.Millisecond)
			end()
			m.End()
		}
		left := join(p, patience)
		left.call()
		left.End()
		time.Sleep(5 * time.Second)
		before, _ := w.counts()
		time.Sleep(10 * time.Second)
		if sent, _ := w.counts(); sent-before != 10 {
			t.Errorf("%d beats in 10 s", sent-before)
		}
		if len(p.members) != 1 {
			t.Errorf("%d members are kept", len(p.members))
		}
	})
}

// Members may have different patience. The process beats and looks at the pace of the least. Each judges by its own.
func TestEachHasItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := new(lock.Processes)
		dying, _, dead := beating(db, "dying")
		dying.call()
		_, p, w := beating(db, "p")
		hasty, patient := join(p, 2*time.Second), join(p, 12*time.Second)
		_, soon := hasty.Stop()
		_, late := patient.Stop()
		defer patient.call()()
		time.Sleep(5 * time.Second)
		defer hasty.call()()
		time.Sleep(5 * time.Second)
		if sent, _ := w.counts(); sent < 13 || sent > 16 { // twice a second since
			t.Errorf("%d beats", sent)
		}
		dead.set(true)
		died := time.Now()
		<-soon
		if took := time.Since(died); took < time.Second || took > 4*time.Second {
			t.Errorf("the hasty one has found it after %v", took)
		}
		if hasty.Stopped("dying") == 0 || patient.Stopped("dying") > 0 {
			t.Errorf("stopped: %v, %v", hasty.Stopped("dying"), patient.Stopped("dying"))
		}
		<-late
		if took := time.Since(died); took < 11*time.Second || took > 14*time.Second {
			t.Errorf("the patient one has found it after %v", took)
		}
		if hasty.watch.stops != 1 || patient.watch.stops != 1 {
			t.Errorf("found %d and %d", hasty.watch.stops, patient.watch.stops)
		}
	})
}

// What one member has seen, another knows when it is asked.
func TestMembersKnowTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := new(lock.Processes)
		dying, _, dead := beating(db, "dying")
		dying.call()
		_, p, _ := beating(db, "p")
		a, b := join(p, patience), join(p, patience)
		defer a.call()()
		time.Sleep(5 * time.Second)
		dead.set(true)
		time.Sleep(6 * time.Second)
		if b.Stopped("dying") == 0 {
			t.Error("it does not know who has stopped")
		}
		if stops := b.Watch(); stops != 1 {
			t.Errorf("%d stops", stops)
		}
	})
}

// A pulse without a store does nothing.
func TestNoBeater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(New(nil), 0)
		end := m.call()
		if stops := m.Watch(); stops != 0 || m.Stopped("a") > 0 || m.Name() == join(New(nil), 0).Name() {
			t.Errorf("%d stops, name %q", stops, m.Name())
		}
		end()
		m.End()
	})
}

// shared is a database with a Home.
type shared struct {
	lock.Processes
	Home
}

// wrapped is a store of it that beats in its own way.
type wrapped struct {
	*shared
	refuse func() error
}

func (w wrapped) Beat(context.Context, string) (map[string]int64, error) { return nil, w.refuse() }

// Stores that are the same value have one pulse. A wrapper with beats of its own has another.
func TestOf(t *testing.T) {
	db := new(shared)
	p := Of(db)
	if Of(db) != p || p.beater != lock.Beater(db) {
		t.Error("a store has two pulses")
	}
	w := &wrapped{shared: db}
	if q := Of(w); q == p || q != Of(w) || q.beater != lock.Beater(w) {
		t.Error("a wrapper does not beat in its own way")
	}
	func() {
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("a store that cannot be compared: %v", r)
			}
		}()
		if Of(*w) == Of(*w) {
			t.Error("stores that cannot be compared share a pulse")
		}
	}()
	if bare := new(lock.Processes); Of(bare) == Of(bare) {
		t.Error("a store that says nothing shares its pulse")
	}
	if q := Of(struct{}{}); q.beater != nil {
		t.Error("a store without beats beats")
	}
	names := make(map[string]bool)
	for range 100 {
		names[New(nil).name] = true
	}
	if len(names) != 100 {
		t.Errorf("names are not unique: %v", maps.Keys(names))
	}
}
