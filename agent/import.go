package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/transcript"
)

// Import makes a session of what was said elsewhere, as Doctor has healed it. If the assistant has not spoken last,
// Continue answers. A repeat with the same messages does nothing, as long as the first turn is kept. If the session
// exists otherwise, Import returns ErrExists.
func (a *Agent[C]) Import(
	ctx context.Context, session string, said []message.Message, custom C, l Labels,
) ([]Fault, error) {
	healed, faults := Doctor(said)
	if len(healed) == 0 {
		return faults, &orchestrator.InputError{Field: "messages", Reason: "say nothing"}
	}
	healed = slices.Clone(healed)
	for i, m := range healed {
		healed[i] = clean(m)
		healed[i].Turn = 0 // that the session begins with
	}
	raw, err := json.Marshal(healed)
	if err != nil {
		return faults, err
	}
	sum := sha256.Sum256(raw)
	id := "import " + hex.EncodeToString(sum[:16])

	p := patch[C]{Custom: custom, Labels: l, Status: Completed}
	if last := healed[len(healed)-1]; last.Role != message.RoleAssistant {
		p.Status = Interrupted
	}
	env := envelope{Op: opCreate}
	if env.Patch, err = json.Marshal(p); err != nil {
		return faults, err
	}
	switch _, err := a.newest(ctx, session); {
	case err == nil:
		first, err := a.bot.Turn(ctx, session, 0)
		if errors.Is(err, checkpoint.ErrNotFound) || err == nil && first.Input.RequestID != id {
			err = refuse("session", ErrExists)
		}
		return faults, err
	case !errors.Is(err, ErrUnknown):
		return faults, err
	}
	if env.Said, err = a.append(ctx, session, id, healed); err == nil {
		_, err = a.run(ctx, session, env.input(id, ""), nil)
	}
	return faults, err
}

// append appends messages in several entries. The call again returns the same spans.
func (a *Agent[C]) append(
	ctx context.Context, session, id string, msgs []message.Message,
) (spans []transcript.Span, err error) {
	for len(msgs) > 0 {
		n := 1
		for n < len(msgs) && n < 256 && size(msgs[:n+1]...) <= 1<<20 {
			n++
		}
		entry := fmt.Sprintf("%s/%d", id, transcript.Count(spans))
		span, err := a.stores.Transcript.Append(ctx, a.key(session), entry, msgs[:n])
		if err != nil {
			return nil, err
		}
		spans, msgs = transcript.Join(spans, span), msgs[n:]
	}
	return spans, nil
}
