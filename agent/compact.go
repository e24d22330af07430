package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/transcript"
)

// A Compaction keeps what the model is shown short: a summary takes the place of what was said long ago, in the middle
// of a turn too. A summary is a change of the state, saved before the model goes on. Nothing is lost of what it stands
// for: Messages yields all of it. If all attempts at a summary fail, the model is shown all, and no other summary is
// tried in this turn.
type Compaction struct {
	// Above is how many tokens of messages the model is shown without a summary. Leave room for Instructions, tools and
	// the reply. If the model fails with ErrTooLong, a summary is made too.
	Above int

	// Keep is how many tokens of the newest messages stay as they are, and so does the newest message of the user, if
	// it has no more. 0 is a quarter of Above. A call is never parted from its result.
	Keep int

	// Tokens counts those of a message. nil takes four bytes for one.
	Tokens func(message.Message) int

	// Model writes the summary. It is asked with one message of the user, which tells all that was said, and without
	// tools. nil is the Model of the definition. Its usage counts as that of any call.
	Model Model

	// Instructions say what the summary has to keep. "" has a text for most agents.
	Instructions string
}

const summaryInstructions = "You write the summary of a conversation between a user and an assistant that uses " +
	"tools. The summary takes the place of the conversation, so keep what is needed to go on: what the user wants, " +
	"what was decided and done, with names, numbers and ids as they were written, and what is still to be done. " +
	"Write plain text, and nothing else."

// maxSummary is how many bytes a summary may have in the state.
const maxSummary = 16 << 10

func (c *Compaction) fault() error {
	if c != nil && (c.Above <= 0 || c.Keep < 0 || c.Keep >= c.Above) {
		return errors.New("agent: Compact needs Above, and a Keep below it")
	}
	return nil
}

func (c *Compaction) tokens(msgs ...message.Message) (n int) {
	for _, m := range msgs {
		if c.Tokens != nil {
			n += c.Tokens(m)
		} else {
			n += size(m) / 4
		}
	}
	return n
}

func (c *Compaction) keep() int {
	if c.Keep == 0 {
		return c.Above / 4
	}
	return c.Keep
}

// older returns which of the messages a summary is to stand for. What it leaves begins with no result, and has the
// newest message of the user. Of a long history it takes as much as a model can be shown, but not below least tokens.
func (c *Compaction) older(all []message.Message, least int) (taken []bool) {
	cut, kept := len(all), 0
	for i, m := range slices.Backward(all) {
		if kept += c.tokens(m); kept > c.keep() && cut < len(all) {
			break
		}
		if m.Role != roleTool {
			cut = i
		}
	}
	asked := -1
	for i, m := range slices.Backward(all) {
		if m.Role == message.RoleUser {
			if c.tokens(m) <= c.keep() {
				asked = i
			}
			break
		}
	}
	through, told, complete := 0, 0, 0
	for i, m := range all[:cut] {
		if i != asked {
			told += c.tokens(m)
		}
		if told > c.Above && complete >= least {
			break
		}
		if i+1 == cut || all[i+1].Role != roleTool {
			through, complete = i+1, told
		}
	}
	taken = make([]bool, len(all))
	for i := range through {
		taken[i] = i != asked
	}
	return taken
}

// compact puts a summary in the place of older messages, if the model would be shown too much, or says so. done says
// that it has, or that somebody has stopped it: then the iteration is over.
func (a *Agent[C]) compact(ctx context.Context, t *Turn[C], shown []message.Message) (done bool, err error) {
	c, s := a.def.Compact, &t.State
	if c == nil || s.Unsummed || !s.TooLong && c.tokens(shown...) <= c.Above {
		return false, nil
	}
	least := max((c.Above-c.keep())/4, 1)
	if s.TooLong {
		least = 1
	}
	done, err = a.shorten(ctx, t, least)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case errors.Is(err, errStopped):
		a.halted(ctx, t)
		return true, nil
	case err != nil:
		t.Logger().WarnContext(ctx, "no summary: the model is shown all", "err", a.logged(logtext.Private(err)))
		s.Unsummed = true
	}
	return done, nil
}

// compactNow is the turn that Compact asks for. If there is a budget, what a summary that failed has cost counts.
func (a *Agent[C]) compactNow(ctx context.Context, t *Turn[C]) error {
	if a.def.Compact != nil { // else a deploy has removed it meanwhile
		_, err := a.shorten(ctx, t, 1)
		if err != nil && (ctx.Err() != nil || !a.happened(t)) {
			return err
		}
		if t.State.Unsummed = err != nil; err != nil {
			t.Logger().WarnContext(ctx, "no summary", "err", a.logged(logtext.Private(err)))
		}
	}
	t.State.Phase = ""
	a.spend(t)
	return nil
}

// shorten puts a summary in the place of older messages, if they have so many tokens. It comes where move comes: all of
// the tail moves first, since a summary stands for numbers.
func (a *Agent[C]) shorten(ctx context.Context, t *Turn[C], least int) (done bool, err error) {
	c, s := a.def.Compact, &t.State
	if err := a.moveAll(ctx, t); err != nil {
		return false, err
	}
	said, err := a.said(ctx, t, s.Said, nil)
	if err != nil {
		return false, err
	}
	var older []message.Message
	var left, behind []transcript.Span
	taken, i := c.older(said, least), 0
	for n := range numbers(s.Said) {
		one := transcript.Span{From: n, Through: n}
		if taken[i] {
			older, behind = append(older, said[i]), append(behind, one)
		} else {
			left = transcript.Join(left, one)
		}
		i++
	}
	if c.tokens(older...) < least {
		return false, nil
	}
	summary, err := a.summarize(ctx, t, older)
	if err != nil {
		return false, err
	}
	t.Logger().InfoContext(ctx, "older messages summarized", "messages", len(older), "bytes", len(summary))
	s.Summary, s.Said, s.Behind = summary, left, transcript.Union(s.Behind, behind)
	return true, nil
}

// summarize asks for a summary of messages, and of what the summary before them says.
func (a *Agent[C]) summarize(ctx context.Context, t *Turn[C], older []message.Message) (string, error) {
	c := a.def.Compact
	r := Request{Instructions: c.Instructions, Said: []message.Message{message.User(plain(t.State.Summary, older))}}
	if r.Instructions == "" {
		r.Instructions = summaryInstructions
	}
	models := a.models
	if c.Model != nil {
		models = modelsOf(c.Model)
	}
	q := &question[C]{agent: a, turn: t, models: models, request: r}
	m, err := q.put(ctx)
	switch {
	case err != nil:
		return "", err
	case words(m) == "":
		return "", errors.New("agent: the summary is empty")
	}
	return clip(words(m), maxSummary), nil
}

// plain tells messages as one text: model APIs refuse calls of tools that they are not told about.
func plain(summary string, all []message.Message) string {
	var b strings.Builder
	if summary != "" {
		fmt.Fprintf(&b, "[summary of what came before]\n%s\n\n", summary)
	}
	for _, m := range all {
		for _, block := range m.Blocks {
			if c, ok := block.Call(); ok {
				fmt.Fprintf(&b, "[call %s of %s]\n%s\n\n", c.ID, c.Name, c.Args)
			} else if r, ok := block.Result(); ok {
				fmt.Fprintf(&b, "[result of call %s]\n%s\n\n", r.CallID, block.Text)
			} else if block.Text != "" && block.Kind == message.KindText {
				fmt.Fprintf(&b, "[%s]\n%s\n\n", m.Role, block.Text)
			}
		}
	}
	return b.String()
}

// summed returns the message that shows a summary to the model.
func summed(summary string) message.Message {
	return message.User("[summary of what was said before]\n" + summary)
}

// Compact puts a summary in the place of what was said before the newest messages, whether or not they are many. It is
// a turn of the session. If the model fails at a cost, and there is a MaxCost, the turn settles, and the error comes
// with its Outcome.
func (a *Agent[C]) Compact(
	ctx context.Context, session string, c *orchestrator.CallOptions,
) (*Outcome[C], error) {
	if a.def.Compact == nil {
		return nil, refuse("session", errors.New("agent: the definition has no Compact"))
	}
	_, version, err := a.Get(ctx, session)
	if err != nil {
		return nil, err
	}
	in := envelope{Op: opCompact}.input(fmt.Sprintf("compact %d", version), "")
	res, err := a.bot.Execute(ctx, session, in, c)
	switch {
	case err != nil:
		return nil, err
	case res.State.Unsummed:
		return outcome(res), errors.New("agent: no summary, since the model has failed; its cost counts")
	}
	return outcome(res), nil
}
