package faulttest

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
		rt.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {},
			"call": func(rt *rapid.T) {
				if err := p.call(rt.Context(), rt); err != nil {
					rt.Fatal(err)
				}
			},
		})
		for _, kind := range []inbox.Kind{inbox.Answer, inbox.Stop} {
			if err := p.sameItems(rt.Context(), "", kind); err != nil {
				rt.Fatal(err)
			}
		}
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
	unknown bool // it may happen at any time
	first   bool // post
	all     [boxIDCount]boxState
}

// of returns what the reply says of one question.
func (r boxReply) of(id int) boxReply {
	one := boxReply{unknown: r.unknown, first: r.first}
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
var boxSpec = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		items := make([][]porcupine.Operation, boxIDCount)
		for _, op := range history {
			c, reply := op.Input.(boxCall), op.Output.(boxReply)
			for id := range items {
				if (c.op == "post" || c.op == "remove") && c.id != id {
					continue
				}
				c.id = id
				op.Input, op.Output = c, reply.of(id)
				items[id] = append(items[id], op)
			}
		}
		return items
	},
	Init: func() any { return boxState(0) },
	Step: func(state, input, output any) (bool, any) {
		want, next := state.(boxState).step(input.(boxCall))
		got := output.(boxReply)
		return got.unknown || got == want, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// InboxHistories records n histories of five workers on a store. If for some item no order of the calls explains the
// replies, the test fails and prints the seed and the calls of the first such history.
func InboxHistories(t *testing.T, newStore func(*testing.T) inbox.Store, n int) {
	t.Helper()
	seed := rand.Uint64()
	s := newStore(t)
	calls, second := 0, 0
	for i := range n {
		h := recordAnswers(t.Context(), s, seed+uint64(i))
		calls += len(h)
		for _, op := range h {
			if out := op.Output.(boxReply); op.Input.(boxCall).op == "post" && !out.first && !out.unknown {
				second++
			}
		}
		if result := porcupine.CheckOperationsTimeout(boxSpec, h, time.Minute); result != porcupine.Ok {
			slices.SortFunc(h, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
			var b strings.Builder
			for _, op := range h {
				fmt.Fprintf(&b, "%d-%d worker %d: %s\n", op.Call, op.Return, op.ClientId,
					boxSpec.DescribeOperation(op.Input, op.Output))
			}
			t.Fatalf("history of seed %d is %v:\n%s", seed+uint64(i), result, &b)
		}
	}
	if second == 0 {
		t.Error("no two answers met")
	}
	t.Logf("%d histories of %d calls are legal", n, calls)
}

// recordAnswers lets five workers act at random on one session.
func recordAnswers(ctx context.Context, s inbox.Store, seed uint64) []porcupine.Operation {
	k := inbox.Key{Orchestrator: "history " + crand.Text(), Session: "s"}
	var clock atomic.Int64
	var mu sync.Mutex
	var ops []porcupine.Operation
	var wg sync.WaitGroup
	start := make(chan struct{})
	for id := range workers {
		rng := rand.New(rand.NewPCG(seed, uint64(id)))
		wg.Go(func() {
			<-start
			for range callsOfEach {
				c := drawBoxCall(rng)
				began := clock.Add(1)
				out := c.do(ctx, s, k, rng.IntN(20) == 0)
				ended := clock.Add(1)
				if out.unknown {
					ended = math.MaxInt64
				}
				mu.Lock()
				ops = append(ops, porcupine.Operation{ClientId: id, Input: c, Call: began, Output: out, Return: ended})
				mu.Unlock()
			}
		})
	}
	close(start)
	wg.Wait()
	return ops
}

func drawBoxCall(rng *rand.Rand) boxCall {
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

// do makes the call. If impatient is true, its context may end before the reply.
func (c boxCall) do(ctx context.Context, s inbox.Store, k inbox.Key, impatient bool) boxReply {
	if impatient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(1000))*time.Microsecond)
		defer cancel()
	}
	var out boxReply
	var err error
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
		for it, failed := range s.Items(ctx, k, inbox.Answer) {
			if failed != nil {
				err = failed
				break
			}
			out.all[it.ID[0]-'0'] = boxState(it.By[0] - '0')
		}
	}
	if err != nil {
		return boxReply{unknown: true}
	}
	return out
}
