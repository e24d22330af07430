package redisstream

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/tail"
)

const (
	// quiet is how long a subscription may hear nothing before the server is asked whether it is there, and then again
	// until it counts as lost.
	quiet = 5 * time.Second

	// most is the longest pause before a lost subscription is made anew, and batch how many channels one command names.
	most  = 5 * time.Second
	batch = 1000
)

// A listener subscribes to the channels of the sessions that readers wait for.
type listener struct{ client redis.UniversalClient }

// listen passes on what is published until ctx ends. While there is no subscription, the Hub asks.
func (l *listener) listen(ctx context.Context, f *tail.Feed) {
	keeper.Reconnect(ctx, most, func() bool {
		defer f.HearsAll(false)
		return l.subscribe(ctx, f)
	})
}

// subscribe passes on what is published until the connection fails. It reports whether it ever heard the server.
func (l *listener) subscribe(ctx context.Context, f *tail.Feed) (heard bool) {
	ctx, cancel := context.WithCancel(ctx)
	s := &subscription{feed: f, sub: l.client.Subscribe(ctx), confirmed: make(map[string]bool)}
	stop := context.AfterFunc(ctx, func() { _ = s.sub.Close() }) // ends receive, which does not look at ctx
	var jobs sync.WaitGroup
	jobs.Go(func() {
		defer cancel()
		s.follow(ctx)
	})
	heard = s.receive(ctx)
	cancel()
	jobs.Wait()
	if stop() {
		_ = s.sub.Close()
	}
	return heard
}

// A subscription is one connection.
type subscription struct {
	feed *tail.Feed
	sub  *redis.PubSub

	mu sync.Mutex // protects following field
	// confirmed are the channels that the server publishes to the connection.
	confirmed map[string]bool
}

// follow subscribes to what readers wait for, and no longer to what none waits for, until ctx ends.
func (s *subscription) follow(ctx context.Context) {
	wanted := make(map[string]bool)
	for {
		ids := s.feed.IDs()
		var add, drop []string
		for id := range ids {
			if !wanted[id] {
				add = append(add, id)
			}
		}
		for id := range wanted {
			if !ids[id] {
				drop = append(drop, id)
			}
		}
		if send(ctx, add, s.sub.Subscribe) != nil || send(ctx, drop, s.sub.Unsubscribe) != nil {
			return
		}
		wanted = maps.Clone(ids)
		s.again(ids)
		select {
		case <-s.feed.Moved():
		case <-ctx.Done():
			return
		}
	}
}

func send(ctx context.Context, channels []string, command func(context.Context, ...string) error) error {
	for some := range slices.Chunk(channels, batch) {
		if err := command(ctx, some...); err != nil {
			return err
		}
	}
	return nil
}

// again tells of channels that are confirmed: the last reader of a session may have left, and another one come, while
// nobody looked.
func (s *subscription) again(ids map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range ids {
		if s.confirmed[id] {
			s.feed.StillHears(id)
		}
	}
}

// receive passes on what is published until the connection fails. It reports whether it ever heard the server.
func (s *subscription) receive(ctx context.Context) (heard bool) {
	for silent := false; ctx.Err() == nil; {
		got, err := s.sub.ReceiveTimeout(ctx, quiet)
		switch {
		case err == nil:
			heard, silent = true, false
			s.take(got)
		case !timeout(err) || silent:
			return heard
		case s.sub.Ping(ctx) != nil:
			return heard
		default:
			silent = true
		}
	}
	return heard
}

func timeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// take passes on one message: the number of the last chunk, after + or, if the status is over, after -.
func (s *subscription) take(got any) {
	switch m := got.(type) {
	case *redis.Subscription:
		s.mu.Lock()
		defer s.mu.Unlock()
		on := m.Kind == "subscribe"
		if on {
			s.confirmed[m.Channel] = true
		} else {
			delete(s.confirmed, m.Channel)
		}
		s.feed.Hears(m.Channel, on)
	case *redis.Message:
		last, err := strconv.ParseInt(m.Payload[min(1, len(m.Payload)):], 10, 64)
		s.feed.Tell(m.Channel, last, err != nil || m.Payload[0] != '+')
	}
}
