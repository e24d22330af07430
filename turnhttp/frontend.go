package turnhttp

import (
	"cmp"
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/stream"
)

// A Show is one turn, as a front end gets it: first its events, and then how it ended. Packages uichat and agui write
// it, each in its protocol. [ShowTurn] and [ShowNewest] return one.
type Show struct {
	// Session is the id of the conversation.
	Session string

	// Run is the run id of a client of AG-UI. "" means that of the turn.
	Run string

	// Tools are the intents that a front end sees as tool calls. Their input and their result are not shown, because
	// events do not hold them. A bot that shows its calls itself gives a [Part] to Turn.Show.
	Tools []string

	// Part returns what the front end gets of a part that the bot has shown. The zero Part is nothing. It is the place
	// to hide what a tool was given or has found. nil shows all.
	Part func(Part) Part

	// Events yields the events of the turn, until ctx ends.
	Events func(ctx context.Context) iter.Seq2[orchestrator.Shown, error]

	// Outcome is called after the last event, which is zero if there was none. It waits for the outcome. If the error
	// is orchestrator.ErrNothingToResume, and there was no event, the front end gets 204.
	Outcome func(ctx context.Context, last orchestrator.Event) (Reply, error)
}

// A Reply holds the part of a settled turn that a front end gets.
type Reply struct {
	// Text is the whole reply. If the newest texts that were shown say something else, Text follows them. "" means that
	// nothing follows.
	Text string

	// Data is shown beside the text, as JSON. nil means none.
	Data any

	// Questions wait for a person.
	Questions []approval.Question

	// Usage is the cost of the turn. ShowTurn and ShowNewest set it if it is zero.
	Usage orchestrator.Usage

	// Run is the id of the run. ShowTurn and ShowNewest set it if it is "".
	Run string
}

// ShowTurn shows a turn of this process: one that the caller has begun with Stream. reply says what of the settled turn
// leaves the process.
func ShowTurn[S any](
	session string, turn *orchestrator.Stream[S], reply func(*orchestrator.Result[S]) Reply,
) Show {
	return Show{
		Session: session,
		Events: func(context.Context) iter.Seq2[orchestrator.Shown, error] {
			return func(yield func(orchestrator.Shown, error) bool) {
				for ev := range turn.Events() {
					if !yield(orchestrator.Shown{Event: ev}, nil) {
						return
					}
				}
			}
		},
		Outcome: func(context.Context, orchestrator.Event) (Reply, error) {
			res, err := turn.Result()
			if err != nil {
				return Reply{}, err
			}
			return replyOf(res, reply), nil
		},
	}
}

// ShowNewest shows the turn of session that is at work, in whichever process, from its first event on. It is for a page
// that was loaded again. If no turn is in flight, the front end gets 204. The bot needs an Options.Stream.
func ShowNewest[S any](
	bot *orchestrator.Orchestrator[S], session string, reply func(*orchestrator.Result[S]) Reply,
) Show {
	return Show{
		Session: session,
		Events: func(ctx context.Context) iter.Seq2[orchestrator.Shown, error] {
			return func(yield func(orchestrator.Shown, error) bool) {
				if _, more, err := bot.LastShown(ctx, session); err != nil {
					yield(orchestrator.Shown{}, err)
				} else if more {
					bot.Follow(ctx, session, stream.Newest)(yield)
				}
			}
		},
		Outcome: func(ctx context.Context, last orchestrator.Event) (Reply, error) {
			if last.Kind == "" {
				return Reply{}, &orchestrator.Error{
					Op: "follow", Session: session, Err: orchestrator.ErrNothingToResume,
				}
			}
			res, err := outcomeOf(ctx, bot, session, &last)
			if err != nil {
				return Reply{}, err
			}
			return replyOf(res, reply), nil
		},
	}
}

func replyOf[S any](res *orchestrator.Result[S], reply func(*orchestrator.Result[S]) Reply) Reply {
	said := reply(res)
	said.Run = cmp.Or(said.Run, res.RunID)
	if said.Usage == (orchestrator.Usage{}) {
		said.Usage = res.Usage
	}
	return said
}
