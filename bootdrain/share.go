package bootdrain

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A Sharer is a Bot whose processes can share the watch. An Orchestrator on PostgreSQL or Redis is a Sharer. One
// process, the watcher, looks for sessions to recover. Each other process only asks now and then whether it is to look.
type Sharer interface {
	Bot
	// Watching makes this process the watcher for d, unless another process is the watcher. other is how much longer
	// the other process remains the watcher, or 0 if this process is. If d is 0, this process gives the watch up.
	//
	// If the processes cannot know of each other, Watching returns errors.ErrUnsupported. Then each process looks.
	//
	// every is Options.Every. Processes with different values have different watchers. If a bot embeds a Sharer and
	// looks for a part of the sessions only, its Watching must return errors.ErrUnsupported. Otherwise no process looks
	// for the other sessions.
	Watching(ctx context.Context, every, d time.Duration) (other time.Duration, err error)
}

// mostSeat bounds how long a process may be silent before another process becomes the watcher.
const mostSeat = 4 * time.Second

// A seat is the watcher's seat, as one process knows it. Two goroutines leave it, while a session waits for a place.
// One of them takes it, while none waits.
type seat struct {
	bot   Sharer        // nil: each process looks for itself
	every time.Duration // Options.Every
	most  time.Duration // longest time for one take
	mine  atomic.Bool
	until time.Time // others may take it then
	drain *drain

	// complained is when the process last logged that the seat's owner is unknown.
	complained time.Time
}

// newSeat returns a seat. Each take of the seat is short enough: if the watcher is killed, another process looks within
// d.Every.
func newSeat(d *drain) *seat {
	s := &seat{every: d.Every, most: min(d.Every*4/5, mostSeat), drain: d}
	if d.Sessions == nil {
		s.bot, _ = d.bot.(Sharer)
	}
	return s
}

// A seating is the answer to a process that asks for the seat.
type seating struct {
	// wait is how long to wait before asking again. If wait is 0, the process may look.
	wait time.Duration
	// fresh says that another process may have had the seat before.
	fresh bool
	// err says that the owner of the seat is unknown. Then this process looks.
	err error
}

// take asks for the seat. If the process has the seat for a while yet, take does not ask.
func (s *seat) take(ctx context.Context, d time.Duration) seating {
	now := time.Now()
	if s.bot == nil || s.mine.Load() && s.until.Sub(now) > s.most/4 {
		return seating{}
	}
	asking, cancel := context.WithTimeout(ctx, mostSeat) // a server may hang, and only this one
	defer cancel()
	other, err := s.bot.Watching(asking, s.every, min(d, s.most))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		s.bot = nil
		return seating{}
	case err != nil:
		return seating{err: err}
	// No process takes the seat for so long: the server's clock was set back.
	case other > mostSeat:
		s.mine.Store(false)
		return seating{}
	case other > 0:
		s.mine.Store(false)
		return seating{wait: min(other, s.most) + rand.N(s.most/8+1)} // not all at once
	}
	s.until = now.Add(min(d, s.most))
	return seating{fresh: !s.mine.Swap(true)}
}

// leave gives the seat up, so that another process can take it at once.
func (s *seat) leave(ctx context.Context) {
	if s.bot == nil || !s.mine.Swap(false) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dueEvery)
	defer cancel()
	if _, err := s.bot.Watching(ctx, s.every, 0); err != nil {
		s.drain.Logger.WarnContext(ctx, "watch not left: another process takes it over in some seconds",
			s.drain.why(err))
	}
}
