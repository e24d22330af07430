package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/stream"
)

// tail follows the events of a session until its turn has ended. It begins anew if a later turn begins.
func tail(ctx context.Context, p *program, args []string, x *extras) error {
	k, err := p.session(ctx, args[0])
	if err != nil {
		return err
	}
	bot, err := p.room.Bot(k.Orchestrator)
	if err != nil {
		return err
	}
	from := x.from
	if from < 0 {
		from = stream.Newest
	}
	shown := 0
	for s, err := range bot.Follow(ctx, k.Session, from) {
		switch {
		case ctx.Err() != nil && err != nil: // the person at the terminal has seen enough
			return nil
		case err != nil:
			return err
		}
		shown++
		if err := p.event(s); err != nil {
			return err
		}
	}
	if shown == 0 && ctx.Err() == nil {
		return fmt.Errorf("%w: no events of %s are kept, and no turn is in flight", errNothing, k.Session)
	}
	return nil
}

// A shownJSON is an event with its number.
type shownJSON struct {
	Number int64              `json:"number"`
	Event  orchestrator.Event `json:"event"`
}

func (p *program) event(s orchestrator.Shown) error {
	ev := s.Event
	if !p.reveal {
		ev.Delta, ev.Data = "", nil
	}
	if p.json {
		return encoder(p.out).Encode(shownJSON{s.Number, ev})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%6d  %s  %-18s turn %d", s.Number, ev.At.UTC().Format("15:04:05.000"), ev.Kind, ev.Turn)
	if ev.Intent != "" {
		fmt.Fprintf(&b, " %s", ev.Intent)
	}
	if ev.Attempt > 1 {
		fmt.Fprintf(&b, " attempt %d", ev.Attempt)
	}
	if len(ev.Next.Intents) > 0 {
		fmt.Fprintf(&b, " → %s", strings.Join(ev.Next.Intents, "+"))
	}
	if ev.Took > 0 {
		fmt.Fprintf(&b, " %v", ev.Took)
	}
	if ev.Err != nil || ev.Failed {
		b.WriteString(" failed")
	}
	if ev.Delta != "" || len(ev.Data) > 0 {
		fmt.Fprintf(&b, "  %s%s", ev.Delta, ev.Data)
	}
	_, err := fmt.Fprintln(p.out, plain(b.String()))
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
