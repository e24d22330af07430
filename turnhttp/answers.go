package turnhttp

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// How Answers goes over the inbox.
const (
	answersEvery  = 5 * time.Second
	answersAtOnce = 4

	// The pause after a turn that has failed doubles, from the first to the most.
	answersFirst = 5 * time.Second
	answersMost  = 10 * time.Minute
)

// Answers runs the answers that lie in the inbox of the bot although no request is at work on them: their process has
// died, or their turn has failed. It also removes answers to questions that are no longer asked. It returns nil when
// ctx ends or the bot shuts down, and all that it runs has ended.
//
// Answers belongs beside the watch of package bootdrain, in each process that serves the bot, with the Options of its
// Handler. Of these it uses Questions, Answer, Inbox, TurnTimeout and OnError, with a nil request. It looks every 5
// seconds, and leaves a new answer to its request until the second look. A session with an owner or a run in flight is
// left alone: the watch finishes its run. After a failure it waits, up to ten minutes.
//
// Each look says how many answers wait, as gauges of the meter provider of OpenTelemetry that was set when Answers
// began: holdfast.answers, and holdfast.answers.age, for how long this process has seen the oldest.
func Answers[S any](ctx context.Context, bot *orchestrator.Orchestrator[S], o Options[S]) error {
	if o.Questions == nil || o.Inbox == nil || o.Answer == nil {
		panic("turnhttp: Answers without Options.Questions, Inbox and Answer")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(bot.Serving(), cancel)()
	l := &lookout[S]{
		server: &server[S]{Options: o.orDefaults(), bot: bot},
		known:  make(map[aboutOne]*waiting), places: make(chan struct{}, answersAtOnce),
	}
	defer l.work.Wait()
	defer l.observe(ctx)()
	for {
		if err := l.look(ctx); err != nil && ctx.Err() == nil {
			l.server.report(ctx, nil, err)
		}
		pause := time.NewTimer(answersEvery/2 + rand.N(answersEvery)) // processes that began at once do not meet
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
	}
}

// A lookout looks for answers to run.
type lookout[S any] struct {
	server *server[S]
	work   sync.WaitGroup
	places chan struct{}

	mu    sync.Mutex // protects the following fields, and what is in them
	known map[aboutOne]*waiting
	seen  seenAnswers
}

// An aboutOne names an answer in the inbox.
type aboutOne struct{ session, id string }

// A waiting is an answer that was seen.
type waiting struct {
	since  time.Time // was seen first
	seen   bool      // since the last look began
	busy   bool      // a goroutine is at work on it
	due    time.Time
	failed time.Duration // the last pause
}

// look goes over the inbox once, and begins to run what is due.
func (l *lookout[S]) look(ctx context.Context) error {
	s := l.server
	var all []inbox.Item
	damaged := 0
	for it, err := range s.Inbox.Items(ctx, inbox.Key{Orchestrator: s.bot.Name()}, inbox.Answer) {
		if _, one := errors.AsType[*inbox.DamagedError](err); one {
			damaged++ // an operator removes it
			continue
		}
		if err != nil {
			l.saw(seenAnswers{})
			return &storeError{err}
		}
		all = append(all, it)
	}
	due := l.dueOf(all, time.Now())
	l.saw(seenAnswers{known: true, count: len(all) + damaged, oldest: l.oldest()})
	for _, it := range due {
		select {
		case l.places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		l.work.Go(func() {
			err := errEnded
			defer func() {
				l.note(it, err)
				if err != nil && ctx.Err() == nil {
					s.report(ctx, nil, err)
				}
				<-l.places
			}()
			_, err = caught("Answers", func() (struct{}, error) { return struct{}{}, s.runAnswer(ctx, it) })
		})
	}
	return nil
}

// dueOf returns the answers to run now, and notes that they are at work. It forgets answers that have gone.
func (l *lookout[S]) dueOf(all []inbox.Item, now time.Time) (due []inbox.Item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.known {
		w.seen = false
	}
	for _, it := range all {
		about := aboutOne{it.Session, it.ID}
		w := l.known[about]
		if w == nil {
			l.known[about] = &waiting{since: now, seen: true, due: now.Add(answersFirst / 2)}
			continue
		}
		if w.seen = true; !w.busy && !now.Before(w.due) {
			w.busy = true
			due = append(due, it)
		}
	}
	for about, w := range l.known {
		if !w.seen && !w.busy {
			delete(l.known, about)
		}
	}
	return due
}

// note notes how an answer has fared.
func (l *lookout[S]) note(it inbox.Item, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.known[aboutOne{it.Session, it.ID}]
	w.busy = false
	if err == nil {
		w.failed = 0
		return
	}
	w.failed = min(max(2*w.failed, answersFirst), answersMost)
	w.due = time.Now().Add(w.failed)
}

// runAnswer runs an answer of the inbox, unless its session is at work. It removes an answer to what is not asked.
func (s *server[S]) runAnswer(ctx context.Context, it inbox.Item) error {
	st, err := s.bot.Inspect(ctx, it.Session)
	if err != nil {
		return err
	}
	if st.Run != nil || st.Owner != "" {
		return nil
	}
	q, err := s.question(ctx, it.Session, it.ID)
	if err != nil {
		return err
	}
	meant := false
	if q != nil {
		if meant, err = s.meant(ctx, it.Session, *q, it); err != nil {
			return err
		}
	}
	if !meant || q.expired(it.At) {
		return s.remove(ctx, it.Session, it.ID)
	}
	c, err := s.taking(ctx, nil, it.Session, *q, Answer{Data: it.Data, By: Actor(it.By)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.TurnTimeout)
	defer cancel()
	_, err = c.end(s.bot.Execute(ctx, c.session, c.input, nil))
	return err
}
