package agent

import (
	"context"

	"github.com/holdfast-go/holdfast/transcript"
)

// SetTail sets how many bytes ride in the state.
func (a *Agent[C]) SetTail(n int) { a.tail = n }

// SetCache sets how many bytes of messages the agent keeps.
func (a *Agent[C]) SetCache(n int) { a.cache.most = n }

// Cached returns how many bytes of messages the agent keeps.
func (a *Agent[C]) Cached() int { return a.cache.size }

// Running returns how many runs the agent takes for running.
func (a *Agent[C]) Running() int { return len(a.running) }

// Unknown is the result that Doctor gives to a call without one.
const Unknown = unknown

// EntryID returns the id of the entry of a tail.
var EntryID = entryID

// Copy copies what was said in one session to another.
func (a *Agent[C]) Copy(ctx context.Context, from, to string, said []transcript.Span) error {
	return a.copy(ctx, from, to, said)
}
