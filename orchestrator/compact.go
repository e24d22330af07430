package orchestrator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// Compaction keeps histories short. The zero Compaction never runs. Compaction follows a settled turn, under the
// session's lease and a deadline of its own.
//
// An error of Compaction is logged and fails no turn. Compaction is tried again after the next turn. If it did not end
// in time, it is not tried again before a pause, which doubles each time. The event Compacted has its usage; the turn
// is settled by then.
type Compaction struct {
	// After is the number of unsummarized turns that makes Compaction due.
	After int

	// Due is asked instead of After, if it is not nil: first about the range as it was a turn ago, then about the range
	// as it is.
	Due func(context.Context, Range) bool

	// Keep is the number of newest turns that are left alone. 0 means 8.
	Keep int

	// Run summarizes a range and replaces it in your message store. After a crash it gets the same range again.
	Run     func(context.Context, Range) (Usage, error)
	Timeout time.Duration // of Due and Run together; 0 means a minute
}

// A Range is the turns From to Through of a session, both included. If the same range comes again, its ID is the same.
type Range struct {
	ID, Session   string
	From, Through int
}

func (c Compaction) orDefaults() Compaction {
	if c.Keep == 0 {
		c.Keep = 8
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	return c
}

func (c Compaction) faults() []string {
	var faults []string
	if c.After < 0 || c.Keep < 0 || c.Timeout < 0 {
		faults = append(faults, "Compaction has a negative field")
	}
	if (c.After > 0 || c.Due != nil) && c.Run == nil {
		faults = append(faults, "Compaction.Run is missing")
	}
	return faults
}

// ranged returns the turns up to through that are not summarized yet; false if there are none.
func (v *visit[S]) ranged(through int) (Range, bool) {
	r := Range{Session: v.own.Session, From: v.summarized, Through: through}
	if r.Through < r.From {
		return r, false
	}
	h := sha256.New()
	for _, part := range []string{
		v.name, v.own.Session, strconv.FormatInt(v.own.Born, 10), strconv.Itoa(r.From), strconv.Itoa(r.Through),
	} {
		writePart(h, part)
	}
	r.ID = hex.EncodeToString(h.Sum(nil)[:16])
	return r, true
}

// byCount returns the range that is due by the number of turns. It is the range as it was when it became due, however
// many turns there are now.
func (v *visit[S]) byCount(last int) (Range, bool) {
	c := v.Compaction
	unsummarized := max(c.After, c.Keep+1)
	if c.Run == nil || c.After == 0 || c.Due != nil || last+1-v.summarized < unsummarized {
		return Range{}, false
	}
	return v.ranged(v.summarized + unsummarized - c.Keep - 1)
}

// mayCompact reports whether compaction may follow a turn. If it may, the call needs the lease for longer.
func (v *visit[S]) mayCompact(turn int) bool {
	if v.Compaction.Run == nil || v.slow.pausing(v.own.Session) {
		return false
	}
	_, due := v.byCount(turn)
	return due || v.Compaction.Due != nil && turn-v.Compaction.Keep >= v.summarized
}

// compact summarizes the range that is due, if one is.
func (v *visit[S]) compact() {
	if !v.mayCompact(v.last.Turn) || v.own.Lost() != nil {
		return
	}
	ctx, cancel := v.own.Outliving(v.Compaction.Timeout, true)
	defer cancel()
	r, due := v.byCount(v.last.Turn)
	if !due {
		r, due = v.asked(ctx)
	}
	if !due {
		return
	}
	if err := v.summarize(ctx, r); err != nil {
		v.Logger.WarnContext(v.own.Ctx, "not compacted; it is tried again",
			"session", v.own.Session, "from", r.From, "through", r.Through, v.why(err))
	}
	v.slow.note(v.own.Session, ctx.Err() != nil)
}

// asked returns the range that Compaction.Due calls due. It asks about the range of a turn ago first: a crash may have
// hidden that this range was summarized.
func (v *visit[S]) asked(ctx context.Context) (Range, bool) {
	for _, through := range []int{v.last.Turn - v.Compaction.Keep - 1, v.last.Turn - v.Compaction.Keep} {
		r, some := v.ranged(through)
		if !some {
			continue
		}
		due := false
		err := v.engine.run(ctx, func(ctx context.Context) error {
			due = v.Compaction.Due(ctx, r)
			return nil
		})
		if err != nil {
			v.Logger.WarnContext(v.own.Ctx, "not asked whether to compact", "session", v.own.Session, v.why(err))
			v.slow.note(v.own.Session, ctx.Err() != nil)
			return r, false
		}
		if due {
			return r, true
		}
	}
	return Range{}, false
}

// summarize runs Compaction.Run, and notes that it has run.
func (v *visit[S]) summarize(ctx context.Context, r Range) error {
	if err := v.own.Lost(); err != nil {
		return err
	}
	var said Usage
	start := time.Now()
	err := v.engine.run(ctx, func(ctx context.Context) (err error) {
		said, err = v.Compaction.Run(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	v.call.emit(Event{Kind: Compacted, RunID: v.last.RunID, Turn: v.last.Turn, Usage: said, Took: time.Since(start)})
	err = v.mark(checkpoint.Marks{Summarized: r.Through + 1})
	if err == nil {
		v.summarized = r.Through + 1
	}
	return err
}

// slow holds the sessions whose summarizer did not end in time. Without it, each of their turns would wait for the
// summarizer again.
type slow struct {
	mu       sync.Mutex // protects following field
	sessions map[string]pausing
}

type pausing struct {
	failures int
	until    time.Time
}

// mostSlow bounds the sessions in slow. If there are more, the summarizer is down for all of them, and some wait again.
const mostSlow = 4096

func (s *slow) pausing(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.sessions[session].until)
}

// note remembers whether the summarizer ran out of time.
func (s *slow) note(session string, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, known := s.sessions[session]
	if !late {
		delete(s.sessions, session)
		return
	}
	if !known && len(s.sessions) >= mostSlow {
		clear(s.sessions)
	}
	if s.sessions == nil {
		s.sessions = make(map[string]pausing)
	}
	p.failures++
	p.until = time.Now().Add(min(time.Minute<<min(p.failures-1, 6), time.Hour))
	s.sessions[session] = p
}

// Compact summarizes the unsummarized turns now. It leaves alone the newest turns, as Compaction.Keep says.
func (o *Orchestrator[S]) Compact(ctx context.Context, session string) error {
	if err := checkSession(session); err != nil {
		return o.adminError("compact", session, err)
	}
	if o.Compaction.Run == nil {
		return o.adminError("compact", session, errors.New("Compaction.Run is missing"))
	}
	k := o.newCall(session, nil)
	defer k.close(ctx)
	v, err := o.visit(ctx, k, "", true)
	if err != nil {
		return o.adminError("compact", session, err)
	}
	defer v.own.Done()
	r, some := v.ranged(v.next() - 1 - v.Compaction.Keep)
	if !some {
		return nil
	}
	ctx, cancel := context.WithTimeout(v.own.Ctx, v.Compaction.Timeout)
	defer cancel()
	return o.adminError("compact", session, v.summarize(ctx, r))
}
