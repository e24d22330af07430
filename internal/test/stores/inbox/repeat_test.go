package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A story is a sequence of calls on one session, with the verdict of each.
type story struct {
	ctx      context.Context
	store    inbox.Store
	verdicts []string
	// after is called after each call.
	after func()
}

func tell(ctx context.Context, s inbox.Store, lives int) []string {
	y := &story{ctx: ctx, store: s, after: func() {}}
	for range lives {
		y.live()
	}
	return y.verdicts
}

// live posts answers, which others post too, and removes them one by one, some of them, and all.
func (y *story) live() {
	y.post("a", "ada")
	y.post("a", "bob")
	y.post("b", "bob")
	y.post("a", "ada")
	y.remove(inbox.Answer, "a")
	y.post("a", "bob")
	y.post("a", "ada")
	y.post("b", "ada")
	y.remove(inbox.Answer, "b", "unknown")
	y.remove(inbox.Answer, "b")
	y.remove(inbox.Answer, "a")
	y.remove(inbox.Answer, "a")
	y.post("a", "carol")
	y.post("c", "carol")
	y.remove(inbox.Answer)
	y.post("a", "ada")
	y.remove("")
	y.post("d", "dan")
	y.post("e", "dan")
	y.remove(inbox.Answer, "d")
	y.post("e", "ada") // the first Post after a Remove, and not the first item
	y.remove("")
}

func (y *story) post(id, by string) {
	first, err := y.store.Post(y.ctx, item("a", id, by))
	y.note(fmt.Sprint("post ", id, " by ", by, ": ", first), err)
}

func (y *story) remove(kind inbox.Kind, ids ...string) {
	y.note(fmt.Sprint("remove ", ids), y.store.Remove(y.ctx, key("a"), kind, ids...))
}

// note adds a verdict, and what readers see after the call.
func (y *story) note(what string, err error) {
	var seen []string
	for _, session := range []string{"", "a"} {
		var all []string
		for it, err := range y.store.Items(y.ctx, key(session), inbox.Answer) {
			all = append(all, fmt.Sprint(it.ID, " by ", it.By, err))
		}
		slices.Sort(all) // two items of the model may be of one microsecond
		seen = append(seen, fmt.Sprint(all))
	}
	y.verdicts = append(y.verdicts, fmt.Sprint(what, ": ", err, " ", seen))
	y.after()
}

// Each answer in turn is lost after its request took effect. The client repeats the request, and no verdict differs.
func TestLostReply(t *testing.T) { onRedis.TestLostReply(t) }

// A copy of a request that arrives much later changes nothing, also in the next life of the session.
func TestLateCopy(t *testing.T) {
	three := onRedis
	three.Tell = func(ctx context.Context, s inbox.Store) []string { return tell(ctx, s, 3) }
	three.TestLateCopy(t)
}

func TestRedisScriptFlush(t *testing.T) { onRedis.TestScriptFlush(t) }

// After each call, copies of all requests so far arrive. They change nothing.
func TestRedisLateCopies(t *testing.T) {
	t.Parallel()
	shared, prefix := testenv.Redis(t)
	sent := new(redistest.Spy)
	y := &story{ctx: t.Context(), store: onRedis.New(redistest.Another(t, shared, sent), prefix)}
	others := onRedis.New(shared, prefix)
	y.after = func() {
		all := slices.Clone(sent.Requests)
		seen := ids(t, others, "a")
		for _, request := range all {
			shared.Do(t.Context(), request...)
			if got := ids(t, others, "a"); !slices.Equal(got, seen) {
				t.Fatalf("after %q, a copy of %.200q made %q of %q", y.verdicts, request, got, seen)
			}
			if listed := ids(t, others, ""); !slices.Equal(listed, seen) {
				t.Fatalf("after %q and a copy of %.200q there are %q, and listed are %q",
					y.verdicts, request, seen, listed)
			}
		}
	}
	y.live()
	y.after = func() {}
	y.live()
	if want := tell(t.Context(), new(inbox.Memory), 2); !slices.Equal(y.verdicts, want) {
		t.Errorf("got %q, want %q", y.verdicts, want)
	}
}

// A slow network delivers a script, loses the answer, and lets other callers act before the client repeats the script.
type slow struct {
	// nth command with so many arguments is the one.
	nth, args int
	meanwhile func()
}

func (s *slow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if len(cmd.Args()) != s.args || err != nil {
			return err
		}
		if s.nth--; s.nth == 0 {
			s.meanwhile()
			err = next(ctx, cmd)
		}
		return err
	}
}

func (s *slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A command has the name, the hash, the number of keys and the key before the arguments of its script.
const postArgs, removeArgs = 4 + 7, 4 + 3

// If the client repeats a Post, its item does not come back once it was removed, although the caller still waits. If
// the client repeats a Remove, it takes no item that was posted since.
func TestRedisRepeated(t *testing.T) {
	t.Parallel()
	shared, prefix := testenv.Redis(t)
	network := new(slow)
	s := onRedis.New(redistest.Another(t, shared, network), prefix)
	others := onRedis.New(shared, prefix)
	remove := func(s inbox.Store, session string) { check(t, s.Remove(t.Context(), key(session), inbox.Answer, "q")) }
	post(t, s, item("warm", "q", "ada"))
	remove(s, "warm") // Redis has the scripts now

	for _, beside := range []bool{false, true} { // the session has another item, or not
		posted, removed := fmt.Sprint("posted ", beside), fmt.Sprint("removed ", beside)
		if beside {
			post(t, others, item(posted, "beside", "bob"), item(removed, "beside", "bob"))
		}
		*network = slow{1, postArgs, func() { remove(others, posted) }}
		post(t, s, item(posted, "q", "ada"))
		if got := ids(t, others, posted); slices.Contains(got, "q") || network.nth != 0 {
			t.Errorf("after the removal there are %q", got)
		}
		post(t, others, item(removed, "q", "ada"))
		// The first asks for the time.
		*network = slow{2, removeArgs, func() { post(t, others, item(removed, "q", "bob")) }}
		remove(s, removed)
		if got := ids(t, others, removed); !slices.Contains(got, "q") || network.nth != 0 {
			t.Errorf("after the new post there are %q", got)
		}
	}
}

// A Post whose first copy was not the first is the first once the other item was removed: it is one call, and has its
// effect when it is answered.
func TestRedisRepeatedSecond(t *testing.T) {
	t.Parallel()
	shared, prefix := testenv.Redis(t)
	network := new(slow)
	s := onRedis.New(redistest.Another(t, shared, network), prefix)
	others := onRedis.New(shared, prefix)
	post(t, s, item("s", "q", "ada"))
	*network = slow{1, postArgs, func() { check(t, others.Remove(t.Context(), key("s"), inbox.Answer)) }}
	first, err := s.Post(t.Context(), item("s", "q", "bob"))
	if got := ids(t, others, "s"); err != nil || first != slices.Contains(got, "q") {
		t.Errorf("first is %t, %v, and there are %q", first, err, got)
	}
}
