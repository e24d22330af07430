package chaostest

import (
	"cmp"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

func runOfError(err error) string {
	if e, ok := errors.AsType[*orchestrator.Error](err); ok {
		return e.RunID
	}
	return ""
}

// owners checks two promises. A call loses its session only to a caller that may take it. A call that was not disturbed
// knows the outcome of its turn.
func (w *simulation) owners(c *call) {
	if c.died || c.over == 0 || c.session == "" {
		return
	}
	expires := leaseTTL * w.time.quantum
	if anyOf(c.got.err, []error{lock.ErrFenced, lock.ErrLost}) && c.took < expires-expires/8 && !w.robbed(c) {
		w.errorf(Innocent, "%v, steps %d to %d: %v", c, c.begun, c.over, c.got)
	}
	if errors.Is(c.got.err, orchestrator.ErrIndeterminate) && !c.disturbed && c.took < expires/2 && w.alone(c) {
		w.errorf(Peaceful, "%v, steps %d to %d: %v", c, c.begun, c.over, c.got)
	}
}

// robbed reports whether another caller may have taken the session from c.
func (w *simulation) robbed(c *call) bool {
	r := w.room(c.session)
	gaveBack := c.kind == "Delete" && c.disturbed || // and a reply was lost
		slices.ContainsFunc(w.callsOf(r), func(d *call) bool { return c.joins(d) && r.settledBy(d) })
	return gaveBack || w.takenDuring(c) || slices.ContainsFunc(w.callsOf(r), func(d *call) bool {
		return d != c && (d.kind == "Delete" || d.kind == "Abandon") && d.overlaps(c)
	})
}

// joins reports whether c may have the answer of d: of itself, or of a call with the same input in its process.
func (c *call) joins(d *call) bool {
	return d == c || c.input != nil && d.input == c.input && d.at == c.at && d.overlaps(c)
}

// settledBy reports whether the store accepted an Append of c. The Append may have released the session, although c got
// no answer.
func (r *room) settledBy(c *call) bool {
	return slices.ContainsFunc(r.lives, func(l *life) bool {
		return slices.ContainsFunc(l.turns, func(s *settling) bool { return s.by == c })
	})
}

// alone reports whether no other call for the session was under way.
func (w *simulation) alone(c *call) bool {
	r := w.room(c.session)
	return !w.takenDuring(c) && !slices.ContainsFunc(w.callsOf(r),
		func(d *call) bool { return d != c && d.overlaps(c) })
}

func (w *simulation) takenDuring(c *call) bool {
	return slices.ContainsFunc(w.room(c.session).taken, func(at int) bool { return c.begun <= at && at <= c.over })
}

// deliveries checks the calls of Deliver.
func (w *simulation) deliveries(r *room) {
	if !w.plan.delivers {
		return
	}
	done := make(map[*settling]*handing)
	for _, h := range r.handed {
		s := r.settledAs(h.result)
		if s == nil {
			w.errorf(Kept, "%s: turn %d of %v is delivered by %v, and was not settled so",
				r.session, h.Turn, runName(h.RunID), h.by)
			continue
		}
		if s.turn > 0 && s.turn <= len(s.life.turns) {
			w.inOrder(r, h, s.life.turns[s.turn-1])
		}
		if h.returned > 0 {
			w.once(r, s, done[s], h)
			done[s] = cmp.Or(done[s], h)
		}
	}
	if l := r.now(); l != nil {
		for _, s := range l.turns {
			if done[s] == nil && !w.skipped(r, s, w.step) {
				w.errorf(Delivered, "%s: turn %d of %v is not delivered", r.session, s.turn, runName(s.run))
			}
		}
	}
}

// once checks that a turn was delivered again only by an owner whose claim did not show the delivery as noted.
func (w *simulation) once(r *room, s *settling, first, h *handing) {
	if first != nil && (first.by == h.by || h.known > s.turn) {
		w.errorf(Delivered,
			"%s: turn %d is delivered by %v, although %v had delivered it in step %d, and that was noted",
			r.session, s.turn, h.by, first.by, first.returned)
	}
}

// inOrder checks that the earlier turn was delivered or skipped before Deliver got the next turn.
func (w *simulation) inOrder(r *room, h *handing, before *settling) {
	if w.skipped(r, before, h.at) {
		return
	}
	for _, other := range r.handed {
		if other.returned > 0 && other.returned <= h.at && other.RunID == before.run && other.Turn == before.turn {
			return
		}
	}
	w.errorf(Delivered, "%s: turn %d is delivered in step %d, before turn %d", r.session, h.Turn, h.at, before.turn)
}

// skipped reports whether a caller may have given up the delivery of a turn before that step.
func (w *simulation) skipped(r *room, s *settling, until int) bool {
	return slices.ContainsFunc(w.callsOf(r), func(c *call) bool {
		told := c.over > 0 && !c.died && c.got.err == nil
		return c.kind == "SkipDelivery" && c.run == s.run && c.begun <= until && (!told || c.got.yes)
	})
}
