package chaostest

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// A room is a session: the inputs sent to it, and the requests that the stores have granted.
type room struct {
	session string
	inputs  []*input
	runs    []string       // callers heard of them
	heard   map[string]int // in which step, by run
	lives   []*life
	owner   lock.Fence // of the latest claim
	births  map[lock.Fence]*life
	// taken are the steps in which the lease was taken away.
	taken  []int
	handed []*handing
}

// A life is a session from its first claim to its end.
type life struct {
	born  int64
	turns []*settling
	noted int // earlier turns are noted as delivered
	over  int // its last step, or 0
}

// A settling is an Append that the store has accepted.
type settling struct {
	*life
	at     int
	turn   int
	run    string
	state  State
	by     *call
	pruned int // the step, or 0 if kept
}

// A grant is a claim that the store has granted to a call.
type grant struct {
	fence lock.Fence
	// noted: earlier turns were noted as delivered by then.
	noted int
}

// A handing is a call of Deliver.
type handing struct {
	*result
	by *call
	at int
	// returned is the step in which Deliver returned nil, or 0.
	returned int
	// known: earlier turns were noted as delivered when the call claimed the session.
	known int
}

func newRoom(session string) *room {
	return &room{session: session, heard: make(map[string]int), births: make(map[lock.Fence]*life)}
}

// now returns the current life, or nil.
func (r *room) now() *life {
	if n := len(r.lives); n > 0 && r.lives[n-1].over == 0 {
		return r.lives[n-1]
	}
	return nil
}

// granted notes a granted claim.
func (w *simulation) granted(c *call, got checkpoint.Claimed) {
	r := w.room(got.Session)
	l := r.now()
	if l == nil || l.born != got.Born {
		l = &life{born: got.Born}
		r.lives = append(r.lives, l)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.owner, r.births[got.Fence] = got.Fence, l
	c.grants = append(c.grants, grant{got.Fence, l.noted})
}

// settled notes an Append.
func (w *simulation) settled(c *call, lease checkpoint.Lease, cp checkpoint.Checkpoint) {
	w.tally.Settled++
	r := w.room(lease.Session)
	s := &settling{life: r.births[lease.Fence], at: w.step, turn: cp.Turn, run: cp.RunID, by: c}
	if err := json.Unmarshal(cp.State, &s.state); err != nil {
		w.errorf(Whole, "%s: the state of turn %d: %v", r.session, cp.Turn, err)
	}
	s.life.turns = append(s.life.turns, s)
	if w.plan.keep == checkpoint.KeepAll {
		return
	}
	kept := w.kept(r.session)
	for _, s := range s.life.turns {
		if len(kept) > 0 && s.pruned == 0 && s.turn < kept[len(kept)-1].Turn {
			s.pruned = w.step
		}
	}
}

// marked notes a Mark.
func (w *simulation) marked(l checkpoint.Lease, m checkpoint.Marks) {
	if life := w.room(l.Session).births[l.Fence]; life != nil {
		life.noted = max(life.noted, min(m.Delivered, len(life.turns)))
	}
}

// removed checks whether the turns of a session are gone.
func (w *simulation) removed(c *call, session string) {
	l := w.room(session).now()
	if l != nil && len(l.turns) > 0 && len(w.kept(session)) == 0 {
		l.over = w.step
		w.note("the turns of %s are gone, by %v", session, c)
	}
}

// kept reads the turns of a session, newest first.
func (w *simulation) kept(session string) (all []checkpoint.Checkpoint) {
	for cp, err := range w.Checkpoints.Turns(context.Background(), w.key(session), checkpoint.Newest) {
		if err != nil {
			w.errorf(Kept, "%s cannot be read: %v", session, err)
			break
		}
		all = append(all, cp)
	}
	return all
}

// handedOver notes a call of Deliver.
func (w *simulation) handedOver(c *call, r *result) *handing {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &handing{result: r, by: c, at: w.step}
	if n := len(c.grants); n > 0 {
		h.known = c.grants[n-1].noted
	}
	room := w.room(r.Session)
	room.handed = append(room.handed, h)
	return h
}

func (w *simulation) returned(h *handing, err error) {
	if err == nil {
		h.returned = w.step
	}
}

// takeAway takes the lease of a session from its owner, as if it had expired.
func (w *simulation) takeAway(r *room) {
	c, err := w.Checkpoints.Claim(context.Background(), w.key(r.session), checkpoint.ClaimRequest{
		Owner: "nobody", Nonce: w.nonce(), TTL: leaseTTL * w.time.quantum, From: r.owner,
	})
	if errors.Is(err, lock.ErrHeld) {
		return // it was released
	}
	if err == nil {
		w.tally.Taken++
		w.note("the lease %v of %s is taken away", r.owner, r.session)
		r.owner, r.births[c.Fence] = c.Fence, r.now()
		r.taken = append(r.taken, w.step)
		err = w.Checkpoints.Mark(context.Background(), c.Lease, checkpoint.Marks{Release: true})
	}
	if err != nil {
		w.errorf(Expected, "take away %s: %v", r.session, err)
	}
}
