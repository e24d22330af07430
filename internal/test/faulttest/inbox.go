package faulttest

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/inbox"
)

// InboxModel compares a store with inbox.Memory by random histories. A few people post and remove items of a few
// sessions. It stops like [CheckpointModel].
func InboxModel(t *testing.T, newStore func(*testing.T) inbox.Store) {
	t.Helper()
	store := newStore(t)
	checkWithin(t, func(rt *rapid.T) {
		p := boxes{store, new(inbox.Memory), "bot " + crand.Text()}
		follow(rt, p.call, func(ctx context.Context) error {
			return errors.Join(p.sameItems(ctx, "", inbox.Answer), p.sameItems(ctx, "", inbox.Stop))
		})
	})
}

// boxes are a store and the reference store, and the orchestrator of a history.
type boxes struct {
	store, model inbox.Store
	bot          string
}

// There are few of each, so that the calls of a history concern the same items.
var (
	boxCalls    = rapid.SampledFrom(strings.Fields("post post post post items all remove remove some kind session"))
	boxSessions = rapid.SampledFrom([]string{"a", "b", "b ", "😀"})
	boxKinds    = rapid.SampledFrom([]inbox.Kind{inbox.Answer, inbox.Answer, inbox.Stop})
	boxIDs      = rapid.SampledFrom([]string{"q1", "q2", "Q1", "é"})
	boxPeople   = rapid.SampledFrom([]string{"ada", "bob", "Ada"})
)

func (p boxes) call(ctx context.Context, t *rapid.T) error {
	k := inbox.Key{Orchestrator: p.bot, Session: boxSessions.Draw(t, "session")}
	kind, id := boxKinds.Draw(t, "kind"), boxIDs.Draw(t, "id")
	remove := func(kind inbox.Kind, ids ...string) error {
		return errors.Join(p.store.Remove(ctx, k, kind, ids...), p.model.Remove(ctx, k, kind, ids...))
	}
	switch what := boxCalls.Draw(t, "what"); what {
	case "post":
		it := inbox.Item{Key: k, Kind: kind, ID: id, By: boxPeople.Draw(t, "by"), Data: drawDocument(t)}
		if rapid.Bool().Draw(t, "shown") {
			it.Shown = "sum of " + it.By
		}
		got, err := p.store.Post(ctx, it)
		want, wantErr := p.model.Post(ctx, it)
		if got != want {
			return fmt.Errorf("%s of %q by %q: first is %t, want %t", what, id, it.By, got, want)
		}
		return errors.Join(err, wantErr)
	case "items":
		return p.sameItems(ctx, k.Session, kind)
	case "all":
		return p.sameItems(ctx, "", kind)
	case "remove":
		return remove(kind, id)
	case "some":
		return remove(kind, id, boxIDs.Draw(t, "another"), "unknown")
	case "kind":
		return remove(kind)
	default:
		return remove("")
	}
}

// sameItems compares what both stores list. Their clocks differ, so the items of a session are compared by id.
func (p boxes) sameItems(ctx context.Context, session string, kind inbox.Kind) error {
	list := func(s inbox.Store) (all []string, err error) {
		var last inbox.Item
		for it, err := range s.Items(ctx, inbox.Key{Orchestrator: p.bot, Session: session}, kind) {
			if err != nil {
				return nil, err
			}
			if cmp.Or(strings.Compare(last.Session, it.Session), last.At.Compare(it.At)) > 0 {
				return nil, fmt.Errorf("%q of %q at %v comes after %q of %q at %v", it.ID, it.Session, it.At, last.ID,
					last.Session, last.At)
			}
			last = it
			var data any
			if err := json.Unmarshal(it.Data, &data); err != nil {
				return nil, err
			}
			it.At, it.Data = time.Time{}, nil
			all = append(all, fmt.Sprintf("%+v %v", it, data))
		}
		slices.Sort(all)
		return all, nil
	}
	got, err := list(p.store)
	want, wantErr := list(p.model)
	if err == nil && wantErr == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("items of %q are %q, want %q", session, got, want)
	}
	return errors.Join(err, wantErr)
}

// boxIDCount is how many questions the one session of a history has.
const boxIDCount = 3

// A boxState says who has answered one question; 0 before.
type boxState int

// A boxCall is the input of one operation of a history.
type boxCall struct {
	op string // post, items, all, remove or clear
	id int
	by int
}

// A boxReply is the answer of a store.
type boxReply struct {
	first bool // post
	all   [boxIDCount]boxState
}

// of returns what the reply says of one question.
func (r boxReply) of(id int) boxReply {
	one := boxReply{first: r.first}
	one.all[id] = r.all[id]
	return one
}

// step is the sequential specification of the item of question c.id.
func (s boxState) step(c boxCall) (boxReply, boxState) {
	var reply boxReply
	switch c.op {
	case "items", "all":
		reply.all[c.id] = s
	case "clear", "remove":
		s = 0
	default:
		if s == 0 {
			s = boxState(c.by)
		}
		reply.first = s == boxState(c.by)
	}
	return reply, s
}

// boxSpec is the linearizable specification of an item. A call that concerns several items concerns each at a moment of
// its own: Remove may forget some items that are posted meanwhile, and Items may yield some.
var boxSpec = func() porcupine.Model {
	m := sequential(boxState.step)
	m.Partition = func(history []porcupine.Operation) [][]porcupine.Operation {
		items := make([][]porcupine.Operation, boxIDCount)
		for _, op := range history {
			c, out := op.Input.(boxCall), op.Output
			for id := range items {
				if (c.op == "post" || c.op == "remove") && c.id != id {
					continue
				}
				c.id = id
				if op.Input = c; out != nil {
					op.Output = out.(boxReply).of(id)
				}
				items[id] = append(items[id], op)
			}
		}
		return items
	}
	return m
}()

// InboxHistories records n histories of five workers on a store. If for some item no order of the calls explains the
// replies, the test fails and prints the seed and the calls of the first such history.
func InboxHistories(t *testing.T, newStore func(*testing.T) inbox.Store, n int) {
	t.Helper()
	s := newStore(t)
	record := func(ctx context.Context, seed uint64) []porcupine.Operation { return recordAnswers(ctx, s, seed) }
	second := func(c boxCall, out boxReply) bool { return c.op == "post" && !out.first }
	legal(t, n, boxSpec, record, second, "no two answers met")
}

// recordAnswers lets five workers act at random on one session.
func recordAnswers(ctx context.Context, s inbox.Store, seed uint64) []porcupine.Operation {
	k := inbox.Key{Orchestrator: "history " + crand.Text(), Session: "s"}
	return together(ctx, seed, drawBoxCall, func(ctx context.Context, c boxCall) (boxReply, error) {
		return c.do(ctx, s, k)
	})
}

func drawBoxCall(rng *hand[boxReply]) boxCall {
	switch dice := rng.IntN(100); {
	case dice < 12:
		return boxCall{op: "items"}
	case dice < 24:
		return boxCall{op: "all"}
	case dice < 44:
		return boxCall{op: "remove", id: rng.IntN(boxIDCount)}
	case dice < 50:
		return boxCall{op: "clear"}
	}
	return boxCall{"post", rng.IntN(boxIDCount), 1 + rng.IntN(3)}
}

func (c boxCall) do(ctx context.Context, s inbox.Store, k inbox.Key) (out boxReply, err error) {
	switch c.op {
	case "post":
		out.first, err = s.Post(ctx, inbox.Item{Key: k, Kind: inbox.Answer, ID: fmt.Sprint(c.id), By: fmt.Sprint(c.by)})
	case "remove":
		err = s.Remove(ctx, k, inbox.Answer, fmt.Sprint(c.id))
	case "clear":
		err = s.Remove(ctx, k, "")
	default:
		if c.op == "all" {
			k.Session = ""
		}
		for it, err := range s.Items(ctx, k, inbox.Answer) {
			if err != nil {
				return out, err
			}
			out.all[it.ID[0]-'0'] = boxState(it.By[0] - '0')
		}
	}
	return out, err
}
