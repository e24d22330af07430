package approval

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

// How Run goes over the inbox.
const (
	answersEvery  = 5 * time.Second
	answersAtOnce = 4

	// The pause after a turn that has failed doubles, from the first to the most.
	answersFirst = 5 * time.Second
	answersMost  = 10 * time.Minute
)

// Run runs the answers that lie in the inbox of the bot although no call is at work on them: their process has died, or
// their turn has failed. It also removes answers to questions that are no longer asked. It returns nil when ctx ends or
// the bot shuts down, and all that it runs has ended.
//
// Run belongs beside the watch of package bootdrain, in each process that serves the bot. It looks every 5 seconds, and
// leaves a new answer to its call until the second look. A session with an owner or a run in flight is left alone: the
// watch finishes its run. After a failure Run waits, up to ten minutes.
//
// Each look says how many answers wait, as gauges of the meter provider of OpenTelemetry that was set when Run began:
// holdfast.answers, and holdfast.answers.age, for how long this process has seen the oldest.
func (d *Desk[S]) Run(ctx context.Context) error {
	if d == nil || d.Bot == nil || d.Questions == nil || d.Inbox == nil || d.Answer == nil {
		panic("approval: a Desk without Bot, Questions, Answer and Inbox")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.Bot.Serving(), cancel)()
	l := &lookout[S]{
		desk: d, known: make(map[aboutOne]*waiting), places: make(chan struct{}, answersAtOnce),
	}
	defer l.work.Wait()
	defer l.observe(ctx)()
	for {
		if err := l.look(ctx); err != nil && ctx.Err() == nil {
			d.report(ctx, err)
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
	desk   *Desk[S]
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
	d := l.desk
	var all []inbox.Item
	damaged := 0
	for it, err := range d.Inbox.Items(ctx, inbox.Key{Orchestrator: d.Bot.Name()}, inbox.Answer) {
		if _, one := errors.AsType[*inbox.DamagedError](err); one {
			damaged++ // an operator removes it
			continue
		}
		if err != nil {
			l.saw(seenAnswers{})
			return &foreign.StoreError{Err: err}
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
			err := foreign.ErrEnded
			defer func() {
				l.note(it, err)
				if err != nil && ctx.Err() == nil {
					d.report(ctx, err)
				}
				<-l.places
			}()
			_, err = foreign.Caught("Desk.Run", func() (struct{}, error) { return struct{}{}, d.runAnswer(ctx, it) })
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
func (d *Desk[S]) runAnswer(ctx context.Context, it inbox.Item) error {
	st, err := d.Bot.Inspect(ctx, it.Session)
	if err != nil {
		return err
	}
	if st.Run != nil || st.Owner != "" {
		return nil
	}
	q, err := d.question(ctx, it.Session, it.ID)
	if err != nil {
		return err
	}
	meant := false
	if q != nil {
		if meant, err = d.meant(ctx, it.Session, *q, it); err != nil {
			return err
		}
	}
	if !meant || q.expired(it.At) {
		return d.remove(ctx, it.Session, it.ID)
	}
	p, err := d.taking(it.Session, *q, Answer{Data: it.Data, By: it.By})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.Timeout, 5*time.Minute))
	defer cancel()
	_, err = p.run(ctx)
	return err
}
