package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A story is a sequence of calls on one session, with the verdict of each.
type story struct {
	ctx      context.Context
	store    snapshot.Store
	verdicts []string
}

func tell(ctx context.Context, s snapshot.Store, lives int64) []string {
	y := &story{ctx: ctx, store: s}
	for life := range lives {
		y.live(fmt.Sprint("run", life), 10*(life+1))
	}
	return y.verdicts
}

// live takes one run through its whole life: it begins, gets parts, changes owners, is parked, ends and is deleted.
// Meanwhile, and afterwards, another run tries to begin. Late owners try everything. Then the first run begins again,
// under a new fence.
func (y *story) live(id string, epoch int64) {
	first, other := runAs("a", id, epoch), runAs("a", "other"+id, epoch)
	// The run is not first. A copy of a save of first that arrives after the Begin would be a save like any other.
	y.save(step(runAs("a", "never"+id, epoch), 1))
	first.Parts = parts("begun", 0)
	y.begin(first)
	y.begin(other)
	y.save(step(first, 1))
	y.save(step(first, 1))
	y.save(adds(first, 2, parts("a", 2)))
	y.save(adds(first, 3, parts("b", 3)))
	y.adopt(epoch+1, 2)
	y.save(step(first, 4))
	y.delete(id, epoch)
	second := adds(first, 4, parts("a", 4))
	second.Fence, second.Attempt, second.Pause = fence(epoch+1), 2, time.Hour
	y.save(second)
	y.adopt(epoch+2, 2)
	y.adopt(epoch+3, 0)
	y.ended(id, epoch)
	y.late(id, epoch)
	other.Fence = fence(epoch + 6)
	y.begin(other)
	y.delete(other.ID, epoch+6)
	again := runAs("a", id, epoch+7)
	y.begin(again)
	y.save(step(again, 1))
	y.delete(id, epoch+7)
}

// ended continues after the third adoption: the run ends. Its next owner adopts it in order to delete it.
func (y *story) ended(id string, epoch int64) {
	ended := step(runAs("a", id, epoch+3), 5)
	ended.Status = snapshot.Ended
	y.save(ended)
	y.adopt(epoch+3, 2)
	y.save(step(ended, 6))
	y.adopt(epoch+2, 2)
	y.adopt(epoch+4, 2)
	y.begin(runAs("a", "other"+id, epoch))
	y.delete("unknown", epoch+4)
	y.delete(id, epoch+3)
	y.delete(id, epoch+4)
	y.delete(id, epoch+4)
	y.save(step(ended, 7))
}

// late lets the former owners come back when no run is in flight. The last of them begins another run.
func (y *story) late(id string, epoch int64) {
	for _, e := range []int64{epoch, epoch + 3, epoch + 4} {
		y.begin(runAs("a", id, e))
	}
	y.begin(runAs("a", "other"+id, epoch+3))
	y.adopt(epoch+3, 2)
	y.delete(id, epoch+3)
	same := runAs("a", "same"+id, epoch+4)
	y.begin(same)
	y.delete(id, epoch+4)
	y.delete(same.ID, epoch+4)
	y.adopt(epoch+4, 2)
	y.adopt(epoch+5, 2)
	y.delete(same.ID, epoch+5)
}

func (y *story) begin(r snapshot.Run) {
	found, err := y.store.Begin(y.ctx, r)
	if found != nil {
		y.note("begin finds "+show(*found), err)
		return
	}
	y.note("begin", err)
}

func (y *story) adopt(epoch int64, attempts int) {
	r, err := y.store.Adopt(y.ctx, key("a"), fence(epoch), attempts)
	y.note(fmt.Sprintf("adopt %d: %s", epoch, show(r)), err)
}

func (y *story) save(r snapshot.Run) { y.note(fmt.Sprint("save ", r.Seq), y.store.Save(y.ctx, r)) }

func (y *story) delete(id string, epoch int64) {
	y.note("delete "+id, y.store.Delete(y.ctx, key("a"), id, fence(epoch)))
}

func show(r snapshot.Run) string {
	return fmt.Sprintf("%s: attempt %d, %s, seq %d, %v, %s, %s, pause %v",
		r.ID, r.Attempt, r.Status, r.Seq, r.Fence, r.Payload, r.Parts, r.Pause.Round(time.Hour))
}

// note adds a verdict, and what readers see after the call.
func (y *story) note(what string, err error) {
	for _, target := range []error{lock.ErrFenced, snapshot.ErrNotFound, snapshot.ErrParked, snapshot.ErrInvalid} {
		if errors.Is(err, target) {
			err = target
		}
	}
	var seen []string
	for _, session := range []string{"", "a"} {
		runs, err := list(y.ctx, y.store, session)
		for _, r := range runs {
			seen = append(seen, show(r))
		}
		seen = append(seen, fmt.Sprint(err))
	}
	y.verdicts = append(y.verdicts, fmt.Sprint(what, ": ", err, " ", seen))
}

// on returns the story of a store on Redis.
func on(t *testing.T, lives int64) redistest.Story {
	return func(client *redis.Client, prefix string) []string {
		return tell(t.Context(), redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix}), lives)
	}
}

// Each answer in turn is lost after its request took effect. The client repeats the request, and no verdict differs.
func TestLostReply(t *testing.T) {
	t.Parallel()
	redistest.LoseReplies(t, tell(t.Context(), new(snapshot.Memory), 2), on(t, 2))
}

// A copy of a request that arrives much later changes nothing, also in the next life of the session.
func TestLateCopy(t *testing.T) {
	t.Parallel()
	const lives = 3
	redistest.CopyLate(t, tell(t.Context(), new(snapshot.Memory), lives),
		func(*redistest.Echo) redistest.Story { return on(t, lives) })
}

// If a request of a Begin is delivered again, no run comes back. A run that has ended does not come back, whether its
// owner or a later one deleted it. Nor does a run begin whose Begin was refused, or was told of another run.
func TestRedisLateBegin(t *testing.T) {
	t.Parallel()
	shared, prefix := testenv.Redis(t)
	sent := new(redistest.Spy)
	client := redistest.Another(t, shared, sent)
	ctx := t.Context()
	s := redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix})
	others := redissnapshot.New(shared, &redissnapshot.Options{Prefix: prefix})
	again := func(when string, inFlight ...string) {
		t.Helper()
		for _, request := range sent.Requests {
			shared.Do(ctx, request...)
			if got := listed(t, others, "a"); !slices.Equal(got, inFlight) {
				t.Fatalf("%s: %.200q made %q of %q", when, request, got, inFlight)
			}
		}
	}
	end := func(id string, epoch int64) { check(t, remove(ctx, others, runAs("a", id, epoch))) }
	refused := func(r snapshot.Run) {
		t.Helper()
		_, err := s.Begin(ctx, r)
		want(t, err, lock.ErrFenced)
	}

	first, told := begin(t, s, runAs("a", "first", 1)), runAs("a", "told", 2)
	if found, err := s.Begin(ctx, told); err != nil || found == nil || found.ID != "first" {
		t.Fatalf("found %v, %v", found, err)
	}
	again("while it is in flight", "first")
	check(t, take(ctx, others, "a", 3))
	again("after it was adopted", "first")
	end("first", 3)
	again("after the adopter deleted it")
	refused(first)
	refused(told)
	again("after it was refused")

	begin(t, s, runAs("a", "third", 4))
	again("while another is in flight", "third")
	end("third", 4)
	again("after its own fence deleted it")
	refused(runAs("a", "third", 4))

	check(t, shared.HSet(ctx, prefix+"{bot/a}:run", "id", "", "epoch", 0, "nonce", "", "found", 0).Err())
	again("where only the index entries are known that no run may rely on")
	first.Fence = fence(5)
	begin(t, s, first)
}

// A slow network delivers a Begin, loses the answer, and lets other callers act before the client repeats the Begin.
type slow struct {
	redistest.Spy
	meanwhile func()
}

// beginArgs is how many arguments the command of a Begin has. No other command has as many.
const beginArgs = 19

func (s *slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if len(cmd.Args()) == beginArgs && s.meanwhile != nil && err == nil {
			s.meanwhile()
			s.meanwhile = nil
			err = next(ctx, cmd)
		}
		return err
	}
}

// If the client repeats a Begin, the run has begun, or the client is told which run is in flight. Calls of others in
// between make no difference. But a run that is over by then does not begin again. Nor does a run whose Begin has found
// another run in flight.
func TestRedisRepeatedBegin(t *testing.T) {
	t.Parallel()
	shared, prefix := testenv.Redis(t)
	network := new(slow)
	client := redistest.Another(t, shared, network)
	ctx := t.Context()
	s := redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix})
	others := redissnapshot.New(shared, &redissnapshot.Options{Prefix: prefix})
	end := func(session, id string, epoch int64) {
		check(t, take(ctx, others, session, epoch))
		check(t, remove(ctx, others, runAs(session, id, epoch)))
	}
	begin(t, s, run("warm")) // Redis has the scripts now

	network.meanwhile = func() { check(t, take(ctx, others, "adopted", 2)) }
	begin(t, s, runAs("adopted", "run", 1))

	for session, meanwhile := range map[string]func(){
		"settled": func() { end("settled", "run", 2) },
		"deleted": func() { check(t, remove(ctx, others, runAs("deleted", "run", 1))) },
		"past": func() {
			end("past", "run", 2)
			check(t, remove(ctx, others, begin(t, others, runAs("past", "another", 3))))
		},
	} {
		network.meanwhile = meanwhile
		_, err := s.Begin(ctx, runAs(session, "run", 1))
		want(t, err, lock.ErrFenced)
	}

	network.meanwhile = func() {
		end("next", "run", 2)
		begin(t, others, runAs("next", "another", 3))
	}
	found, err := s.Begin(ctx, runAs("next", "run", 1))
	if err != nil || found == nil || found.ID != "another" {
		t.Errorf("found %v, %v", found, err)
	}

	begin(t, others, runAs("freed", "first", 1))
	network.meanwhile = func() { end("freed", "first", 2) }
	_, err = s.Begin(ctx, runAs("freed", "run", 3))
	want(t, err, lock.ErrFenced) // the first copy has found a run
	if network.meanwhile != nil {
		t.Error("no Begin was repeated")
	}
}

func TestRedisScriptFlush(t *testing.T) {
	t.Parallel()
	redistest.ForgetScripts(t, tell(t.Context(), new(snapshot.Memory), 2), on(t, 2))
}
