package agent

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/transcript"
)

// litterFor is how long what no state names is left alone. A run that has stood still may come back to it.
const litterFor = 24 * time.Hour

// tidy takes note of messages that no state names, and deletes them a day later. A run that failed has left them: its
// entries have the numbers between those that the state names and from, the next one. Nothing else makes such messages,
// and nobody but the writer of the session deletes them.
func (a *Agent[C]) tidy(ctx context.Context, t *Turn[C], from int64) {
	s := &t.State
	now := time.Now().UTC().Truncate(time.Millisecond)
	if s.Litter.IsZero() {
		var newest int64
		if named := s.named(); len(named) > 0 {
			newest = named[len(named)-1].Through
		}
		if newest+1 < from {
			s.Litter = now
		}
		return
	}
	if now.Sub(s.Litter) < litterFor {
		return
	}
	deleted, err := a.trim(ctx, t, now.Add(-litterFor))
	if err != nil {
		t.Logger().WarnContext(ctx, "messages that no state names are left; it is tried again", "err", logtext.Of(err))
		return
	}
	t.Logger().InfoContext(ctx, "messages deleted that no state names", "messages", deleted)
	s.Litter = time.Time{}
}

// trim deletes the messages that were appended before a time and that no kept state names.
func (a *Agent[C]) trim(ctx context.Context, t *Turn[C], before time.Time) (deleted int, err error) {
	named := t.State.named()
	for r, err := range a.bot.Turns(ctx, t.Session) {
		if err != nil {
			return 0, err
		}
		named = transcript.Union(named, r.State.Said, r.State.Behind)
	}
	return a.stores.Transcript.Trim(ctx, a.key(t.Session), named, before)
}

// named returns the numbers of all that was said in the session.
func (s *State[C]) named() []transcript.Span { return transcript.Union(s.Said, s.Behind) }
