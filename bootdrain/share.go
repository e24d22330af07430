package bootdrain

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

// A Sharer is a Bot whose processes can share the watch, as those of an Orchestrator do on PostgreSQL and Redis. Then
// one of them looks for what is to be recovered, and each of the others only asks now and then whether it is to look.
type Sharer interface {
	Bot
	// Watching makes this process the watcher for d, unless another process is. It returns for how much longer
	// another is; 0 if this process is. With d 0 this process is the watcher no longer. It is errors.ErrUnsupported
	// if the processes know nothing of each other: then each of them looks.
	//
	// Every is Options.Every. Processes with another have a watcher of their own. A bot that embeds a Sharer and looks for
	// a part of the sessions must return errors.ErrUnsupported, or nobody looks for the others.
	Watching(ctx context.Context, every, d time.Duration) (other time.Duration, err error)
}

// mostSeat bounds how long a process may be silent before another becomes the watcher.
const mostSeat = 4 * time.Second

// A seat is that of the watcher, as one process sees it.
type seat struct {
	bot    Sharer        // nil: each process looks for itself
	every  time.Duration // Options.Every
	most   time.Duration // how long it is taken for
	mine   bool
	until  time.Time // from then on another process may take it
	logger *slog.Logger

	complained time.Time // that nobody knows whose it is
}

// newSeat returns a seat that is taken for so long that, if its process is killed, another looks within d.Every.
func newSeat(d *drain) *seat {
	s := &seat{every: d.Every, most: min(d.Every*4/5, mostSeat), logger: d.Logger}
	if d.Sessions == nil {
		s.bot, _ = d.bot.(Sharer)
	}
	return s
}

// A seating is what a process is told that asks for the seat.
type seating struct {
	wait  time.Duration // until it is to ask again; 0: it may look
	fresh bool          // another process may have had the seat before
	err   error         // nobody knows whose the seat is, so that this process looks
}

// take asks for the seat, unless it is taken for a while yet.
func (s *seat) take(ctx context.Context, d time.Duration) seating {
	now := time.Now()
	if s.bot == nil || s.mine && s.until.Sub(now) > s.most/4 {
		return seating{}
	}
	other, err := s.bot.Watching(ctx, s.every, min(d, s.most))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		s.bot = nil
		return seating{}
	case err != nil:
		return seating{err: err}
	case other > mostSeat: // nobody takes it for so long: the clock that measures it was set back
		s.mine = false
		return seating{}
	case other > 0:
		s.mine = false
		return seating{wait: min(other, s.most) + rand.N(s.most/8+1)} // not all at once
	}
	fresh := !s.mine
	s.mine, s.until = true, now.Add(min(d, s.most))
	return seating{fresh: fresh}
}

// leave lets another process have the seat at once.
func (s *seat) leave(ctx context.Context) {
	if s.bot == nil || !s.mine {
		return
	}
	s.mine = false
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dueEvery)
	defer cancel()
	if _, err := s.bot.Watching(ctx, s.every, 0); err != nil {
		s.logger.WarnContext(ctx, "watch not left: another process takes it over in some seconds", "err", err)
	}
}
