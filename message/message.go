package message

import "time"

// The roles that this package writes. A message with another role keeps it.
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleSystem    = "system"
)

// A Message is one contribution of one side to a session. It is plain data: a copy shares the blocks.
type Message struct {
	// ID is for the caller, to find the message again. It may be "".
	ID string
	// Role says who speaks: RoleUser, RoleAssistant, RoleSystem or another.
	Role string
	// Turn is the number of the session's turn. Compaction counts by it.
	Turn int
	// CreatedAt is the time by the writer's clock, with its offset. It may be zero.
	CreatedAt time.Time
	Blocks    []Block
}

// User returns a message of the user with one text block.
func User(text string) Message { return Message{Role: RoleUser, Blocks: []Block{Text(text)}} }

// Assistant returns a message of the model with one text block.
func Assistant(text string) Message { return Message{Role: RoleAssistant, Blocks: []Block{Text(text)}} }

// System returns an instruction with one text block.
func System(text string) Message { return Message{Role: RoleSystem, Blocks: []Block{Text(text)}} }

// Last returns the newest n messages. If h has fewer, Last returns all. If n is not positive, Last returns none. The
// result shares the elements of h, but appending to the result copies. It may begin with a tool result without its
// call.
func Last(h []Message, n int) []Message {
	return newest(h, min(max(n, 0), len(h)))
}

// Fit returns the newest messages that together cost no more than budget. Fit leaves no gaps: it goes from the newest
// message back and stops at the first that costs too much. It does not ask for the cost of older messages. A negative
// cost counts as 0. The result shares elements as that of [Last] does.
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
