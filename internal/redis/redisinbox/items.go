package redisinbox

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

const (
	// Pages of the index grow. The first items should come soon, and many sessions should not cost two round trips
	// each.
	firstPage, mostPage = 16, 64

	// A page of a session has so many items at most. It ends earlier if it has so many bytes.
	pageItems, pageBytes = 64, 256 << 10
)

// Items reads the items of a session page by page. For all sessions it reads the index page by page, and then the items
// of its sessions. It drops stale entries.
func (s *Store) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return func(yield func(inbox.Item, error) bool) {
		err := redisstore.Checked(ctx, inbox.ValidateItems(k, kind))
		if err == nil {
			w := walk{s, ctx, k.Orchestrator, kind, yield}
			if k.Session != "" {
				err = w.session(k.Session)
			} else {
				err = w.all()
			}
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(inbox.Item{}, fmt.Errorf("redis: items of %q: %w", k.Session, err))
		}
	}
}

// errEnough says that the loop over the items ends.
var errEnough = errors.New("enough")

// A walk is one loop over items.
type walk struct {
	*Store
	ctx          context.Context
	orchestrator string
	kind         inbox.Kind
	yield        func(inbox.Item, error) bool
}

func (w walk) key(session string) inbox.Key {
	return inbox.Key{Orchestrator: w.orchestrator, Session: session}
}

// call returns the arguments that list the items of a session behind a place.
func (w walk) call(session, place, token string) redisstore.Call {
	return redisstore.Call{Keys: w.boxKeys(w.key(session), w.kind), Args: []any{place, pageItems, pageBytes, token}}
}

// all yields the items of all sessions.
func (w walk) all() error {
	from := redisstore.First
	for size := firstPage; ; size = mostPage {
		page, err := w.redis.List(w.ctx, w.indexKey(w.orchestrator, w.kind), from, redisstore.Last, size)
		if err != nil {
			return err
		}
		if err := w.sessions(page); err != nil || len(page) < size {
			return err
		}
		from = redisstore.Past(page[len(page)-1].Session)
	}
}

// sessions yields the items of the sessions of a page of the index, and drops stale entries.
func (w walk) sessions(page []redisstore.Entry) error {
	type answer struct {
		reply redisstore.Reply
		err   error
	}
	calls, answers := make([]redisstore.Call, len(page)), make([]answer, len(page))
	for i, e := range page {
		calls[i] = w.call(e.Session, "", e.Token)
	}
	var stale []redisstore.Barred
	w.redis.RunAll(w.ctx, itemsScript, calls, func(i int, reply redisstore.Reply, err error) {
		answers[i] = answer{reply, err}
		if err == nil && reply.Status == "DROP" {
			stale = append(stale, redisstore.Barred{Session: page[i].Session, Token: page[i].Token, At: reply.Value(0)})
		}
	})
	_ = w.redis.Drop(w.ctx, w.indexKey(w.orchestrator, w.kind), stale...) // another reader drops these entries
	for i, a := range answers {
		session := page[i].Session
		place, err := w.page(session, a.reply, a.err)
		if err == nil && place != "" {
			err = w.rest(session, place)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// session yields the items of a session.
func (w walk) session(session string) error { return w.rest(session, "") }

// rest yields the items of a session behind a place.
func (w walk) rest(session, place string) error {
	for {
		call := w.call(session, place, "")
		reply, err := w.redis.Run(w.ctx, itemsScript, call.Keys, call.Args...)
		if place, err = w.page(session, reply, err); err != nil || place == "" {
			return err
		}
	}
}

// page yields the items of a reply. It returns the place of the last item if there are more, and "" otherwise. If the
// items of the session cannot be read, page yields the damage.
func (w walk) page(session string, reply redisstore.Reply, err error) (place string, _ error) {
	it := inbox.Item{Key: w.key(session), Kind: w.kind}
	if err != nil {
		if err = judge(it, err); !errors.Is(err, inbox.ErrDamaged) {
			return "", err
		}
		return "", w.give(it, err)
	}
	if reply.Status != "MORE" && reply.Status != "END" {
		return "", nil // there are no items
	}
	for _, member := range reply.Values {
		f := decode(it.Key, it.Kind, member)
		if err := w.give(f.Item, f.damage); err != nil {
			return "", err
		}
		place = f.place
	}
	if reply.Status != "MORE" {
		place = ""
	}
	return place, nil
}

// give yields one item.
func (w walk) give(it inbox.Item, damage error) error {
	if err := ctxcause.Of(w.ctx); err != nil {
		return err
	}
	if !w.yield(it, damage) {
		return errEnough
	}
	return nil
}
