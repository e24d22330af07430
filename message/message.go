package message

import "time"

// The roles that this package writes. Others are kept as they are.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleSystem    = "system"
)

// A Message is what one side said at one time. It is plain data: a copy shares the blocks.
type Message struct {
	ID        string // the caller's, for finding it again; may be ""
	Role      string
	Turn      int       // of its session; what compaction counts by
	CreatedAt time.Time // as the clock of its writer showed it, offset included; may be zero
	Blocks    []Block
}

// User returns a message of the user with one text block.
func User(text string) Message { return Message{Role: RoleUser, Blocks: []Block{Text(text)}} }

// Assistant returns a message of the model with one text block.
func Assistant(text string) Message { return Message{Role: RoleAssistant, Blocks: []Block{Text(text)}} }

// System returns an instruction with one text block.
func System(text string) Message { return Message{Role: RoleSystem, Blocks: []Block{Text(text)}} }

// Last returns the newest n messages, or all if there are fewer, or none if n is not positive. The result shares the
// elements of h, but appending to it copies. It may begin with a tool result whose call is not in it.
func Last(h []Message, n int) []Message {
	return newest(h, min(max(n, 0), len(h)))
}

// Fit returns the newest messages that together cost no more than budget, without gaps: it ends at the first, from the
// newest back, that is too much, and asks for no cost beyond it. A negative cost counts as 0. The result is as that of
// [Last].
func Fit(h []Message, budget int, cost func(Message) int) []Message {
	n := 0
	for ; n < len(h); n++ {
		c := max(cost(h[len(h)-1-n]), 0)
		if c > budget {
			break
		}
		budget -= c
	}
	return newest(h, n)
}

func newest(h []Message, n int) []Message { return h[len(h)-n : len(h) : len(h)] }
