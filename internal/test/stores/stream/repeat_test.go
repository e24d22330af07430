package stream_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/stream"
)

// tell makes calls on one session, and returns what each of them says. Each Append has other chunks.
func tell(ctx context.Context, s stream.Store) (verdicts []string) {
	note := func(what string, values ...any) {
		verdicts = append(verdicts, what+" "+fmt.Sprint(values...))
	}
	add := func(run string, epoch int64, status stream.Status, n int) {
		last, err := s.Append(ctx, key("a"), run, epoch, status, docs(n))
		note("append", last, " ", err)
	}
	see := func(seq int64) {
		n, err := read(ctx, s, key("a"), seq)
		note("read", n, " ", err)
		last, _, status, err := s.Last(ctx, key("a"))
		note("last", last, " ", status, " ", err)
	}
	for epoch := int64(1); epoch < 4; epoch++ {
		run := fmt.Sprint("r", epoch)
		add(run, epoch, stream.Active, 3)
		add(run, epoch, stream.Active, 0)
		add(run, epoch, stream.Active, 1)
		add(run, epoch-1+1, stream.Paused, 2)
		see(0)
		add(run, epoch+10, stream.Active, 5)
		add(run, epoch, stream.Failed, 5)
		add(run, epoch+10, stream.Ended, 0)
		see(stream.Newest)
		for range 6 {
			add(run, epoch+10, stream.Ended, 4)
		}
		see(20)
	}
	return verdicts
}

// repeated is a store that trims in the story.
var repeated = onRedisKeeping(64)

func TestLostReply(t *testing.T) { repeated.TestLostReply(t) }

// A copy that arrives late adds nothing, as long as its Append is one of the last 32 of the session.
func TestLateCopy(t *testing.T) { repeated.TestLateCopy(t) }

func TestRedisScriptFlush(t *testing.T) { repeated.TestScriptFlush(t) }
