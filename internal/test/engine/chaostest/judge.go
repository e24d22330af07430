package chaostest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// judge compares the answers, the deliveries and the granted requests with the stored turns.
func (w *simulation) judge() {
	for _, r := range w.rooms {
		w.chains(r)
		kept := w.store(r)
		w.results(r, kept)
		w.deletions(r, kept)
		w.settlings(r)
		w.deliveries(r)
	}
	for _, c := range w.calls {
		w.owners(c)
		w.errors(c)
	}
}

// chains checks that the turns of each life follow each other.
func (w *simulation) chains(r *room) {
	for _, l := range r.lives {
		var before State
		for n, s := range l.turns {
			if s.turn != n {
				w.errorf(Whole, "%s: turn %d is numbered %d", r.session, n, s.turn)
			}
			w.follows(r, s, before)
			before = s.state
		}
	}
}

// follows checks that a turn is the earlier state and its own notes.
func (w *simulation) follows(r *room, s *settling, before State) {
	n := len(before.Notes)
	if len(s.state.Notes) <= n || !slices.Equal(s.state.Notes[:n], before.Notes) {
		w.errorf(Whole, "%s: turn %d does not start from the one before: %v and %v", r.session, s.turn, before, s.state)
		return
	}
	own := s.state.Notes[n:]
	text, _ := read(own[0])
	var iterations []int
	for _, note := range own {
		other, iteration := read(note)
		if other != text {
			w.errorf(Whole, "%s: turn %d of %q has the note %q", r.session, s.turn, text, note)
		}
		iterations = append(iterations, iteration)
	}
	if !slices.Equal(iterations, notesOf(text)) {
		w.errorf(Whole, "%s: turn %d of %q has the iterations %v", r.session, s.turn, text, iterations)
	}
	left, right := before.Left, before.Right
	if text[0] == wide {
		left, right = text, text
	}
	if s.state.Left != left || s.state.Right != right {
		w.errorf(Whole, "%s: turn %d of %q has the branches %q and %q", r.session, s.turn, text, s.state.Left,
			s.state.Right)
	}
}

// text returns the text of the input.
func (s *settling) text() string {
	if n := len(s.state.Notes); n > 0 {
		text, _ := read(s.state.Notes[n-1])
		return text
	}
	return ""
}

// store checks that each stored turn is the one settled last, and returns the stored turns by run.
func (w *simulation) store(r *room) map[string]*settling {
	kept := w.kept(r.session)
	slices.Reverse(kept)
	byRun := make(map[string]*settling)
	l := r.now()
	if l == nil {
		return byRun
	}
	for _, cp := range kept {
		var s State
		err := json.Unmarshal(cp.State, &s)
		if cp.Turn >= len(l.turns) || err != nil || cp.RunID != l.turns[cp.Turn].run ||
			!s.equal(l.turns[cp.Turn].state) {
			w.errorf(Kept, "%s: turn %d of %v is kept, and was settled otherwise", r.session, cp.Turn,
				runName(cp.RunID))
			continue
		}
		byRun[cp.RunID] = l.turns[cp.Turn]
	}
	for _, s := range l.turns[max(0, len(l.turns)-w.plan.keep):] {
		if byRun[s.run] == nil {
			w.errorf(Kept, "%s: turn %d of %v is not kept", r.session, s.turn, runName(s.run))
		}
	}
	return byRun
}

func (s State) equal(t State) bool {
	return slices.Equal(s.Notes, t.Notes) && s.Left == t.Left && s.Right == t.Right
}

// errors checks that each error is a named one.
func (w *simulation) errors(c *call) {
	err := c.got.err
	if err == nil || c.kind == "Shutdown" || anyOf(err, expected) || strings.Contains(err.Error(), stuck) {
		return
	}
	w.errorf(Expected, "%v: %v", c, err)
}

// settledAs returns the turn that a result shows.
func (r *room) settledAs(res *result) *settling {
	for _, l := range r.lives {
		for _, s := range l.turns {
			if s.run == res.RunID && s.turn == res.Turn && s.state.equal(res.State) && s.text() == res.Input.Text {
				return s
			}
		}
	}
	return nil
}

// results checks the answers that have a Result.
func (w *simulation) results(r *room, kept map[string]*settling) {
	for _, c := range w.callsOf(r) {
		for res := c.got.res; res != nil; res = res.Resumed {
			s := r.settledAs(res)
			switch {
			case s == nil:
				w.errorf(Kept, "%v: turn %d of %v is told, and was not settled so", c, res.Turn, runName(res.RunID))
			case kept[res.RunID] == s, s.pruned > 0 && s.life == r.now():
			case !w.mayBeDeleted(r, c):
				w.errorf(Kept, "%v: turn %d of %v is lost", c, res.Turn, runName(res.RunID))
			}
		}
	}
}

func (w *simulation) callsOf(r *room) (some []*call) {
	for _, c := range w.calls {
		if c.session == r.session {
			some = append(some, c)
		}
	}
	return some
}

// mayBeDeleted reports whether a Delete that did not fail was under way at the same time as c, or came later.
func (w *simulation) mayBeDeleted(r *room, c *call) bool {
	return slices.ContainsFunc(w.callsOf(r), func(d *call) bool {
		return d.kind == "Delete" && d.over >= c.begun && (d.died || fateOf(d.got.err) <= settled)
	})
}

// deletions checks that an acknowledged Delete has removed all turns before it. In each life of a session, a run has
// another id.
func (w *simulation) deletions(r *room, kept map[string]*settling) {
	for _, d := range w.callsOf(r) {
		if d.kind != "Delete" || d.died || d.got.err != nil {
			continue
		}
		for _, s := range kept {
			at, heard := r.heard[s.run]
			if s.at < d.begun || heard && at < d.begun {
				w.errorf(Deleted, "%v: turn %d of %v is there still", d, s.turn, runName(s.run))
			}
		}
	}
}

// settlings checks that each settled turn was asked for, and not ended before.
func (w *simulation) settlings(r *room) {
	seen := make(map[*life]map[string]*settling)
	for _, l := range r.lives {
		seen[l] = make(map[string]*settling)
		for _, s := range l.turns {
			if first := seen[l][s.run]; first != nil {
				w.again(r, first, s)
			}
			seen[l][s.run] = s
			w.wanted(r, s)
		}
	}
}

// again judges a run that was settled twice. This is right only if the input was sent again after its turn was pruned.
func (w *simulation) again(r *room, first, second *settling) {
	in := r.inputOf(second.text())
	sent := first.pruned > 0 && slices.ContainsFunc(in.sent, func(c *call) bool {
		return c.over > first.pruned && c.begun < second.at
	})
	if !sent {
		w.errorf(Once, "%s: %q is settled as turn %d in step %d and as turn %d in step %d",
			r.session, second.text(), first.turn, first.at, second.turn, second.at)
	}
}

func (r *room) inputOf(text string) *input {
	for _, in := range r.inputs {
		if in.Text == text {
			return in
		}
	}
	return new(input)
}

// wanted checks that a call can have begun the turn, and that no later caller was told that its run is over.
func (w *simulation) wanted(r *room, s *settling) {
	in := r.inputOf(s.text())
	for _, c := range in.sent {
		if c.begun > s.at || !c.died && fateOf(c.got.err) > settled {
			continue
		}
		if !w.resolved(r, s, in, c) {
			return
		}
	}
	told := ""
	for _, c := range in.sent {
		told += fmt.Sprintf("\n\t%v, steps %d to %d, was told: %v", c, c.begun, c.over, c.got)
	}
	w.errorf(Failed, "%s: %q is settled as turn %d in step %d, by %v%s", r.session, in.Text, s.turn, s.at, s.by, told)
}

// resolved reports whether a caller was told, after c and before the turn was settled, that the run of c is over.
func (w *simulation) resolved(r *room, s *settling, in *input, c *call) bool {
	return slices.ContainsFunc(w.callsOf(r), func(z *call) bool {
		return z.begun > c.over && z.over < s.at && z.over > 0 && !z.died && z.ends(s.run, in)
	})
}

// ends reports whether the caller of c was told that a run is over.
func (c *call) ends(run string, in *input) bool {
	switch c.kind {
	case "Execute":
		return c.input == in && fateOf(c.got.err) == failed || c.endsAnother(run)
	case "Resume":
		return fateOf(c.got.err) == failed && runOfError(c.got.err) == run
	case "Abandon":
		return c.got.yes && c.got.err == nil && c.run == run
	case "Delete":
		return c.got.err == nil
	}
	return false
}

// endsAnother reports whether a Result says that an earlier run in flight has failed.
func (c *call) endsAnother(run string) bool {
	return c.got.res != nil && c.got.res.ResumeErr != nil && runOfError(c.got.res.ResumeErr) == run
}
