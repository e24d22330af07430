package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ops"
	"github.com/holdfast-go/holdfast/store"
)

// A doneJSON says what an act has done.
type doneJSON struct {
	Act     string `json:"act"`
	Bot     string `json:"bot,omitempty"`
	ID      string `json:"id"`
	Done    bool   `json:"done"`
	Receipt string `json:"receipt,omitempty"`
	By      string `json:"by"`
}

// told prints what an act has done. If it has found nothing to do, that is the error.
func (p *program) told(v doneJSON, done, nothing string) error {
	v.By = p.by
	if p.json {
		if err := encoder(p.out).Encode(v); err != nil {
			return err
		}
	}
	if !v.Done {
		return fmt.Errorf("%w: %s", errNothing, nothing)
	}
	if !p.json {
		fmt.Fprintln(p.out, plain(done))
	}
	return nil
}

// each does an act to each session that is named. It goes on after what was not done, and returns the first error.
func (p *program) each(
	ctx context.Context, act ops.Act, names []string, done, nothing string,
	f func(k store.Key) (bool, error),
) (first error) {
	for _, name := range names {
		k, err := p.session(ctx, name)
		var did bool
		if err == nil {
			did, err = f(k)
		}
		if err == nil {
			err = p.told(doneJSON{Act: string(act), Bot: k.Orchestrator, ID: name, Done: did},
				fmt.Sprintf("%s: %s", name, done), fmt.Sprintf("%s: %s", name, nothing))
		}
		if err != nil && first == nil {
			first = err
		} else if err != nil {
			_, line := explain(err)
			fmt.Fprintln(p.err, "holdfast: "+line)
		}
	}
	return first
}

func unpark(ctx context.Context, p *program, args []string, _ *extras) error {
	return p.each(ctx, ops.Unpark, args, "the run is due again; a process that has the bot goes on with it",
		"no run is parked", func(k store.Key) (bool, error) { return p.room.Unpark(ctx, p.by, k) })
}

func due(ctx context.Context, p *program, args []string, _ *extras) error {
	return p.each(ctx, ops.MakeDue, args, "the run is due now; a process that has the bot goes on with it",
		"no run waits to be tried again", func(k store.Key) (bool, error) { return p.room.MakeDue(ctx, p.by, k) })
}

func stop(ctx context.Context, p *program, args []string, x *extras) error {
	return p.each(ctx, ops.Stop, args[:1], "the run is asked to stop; only an agent does",
		"no such run is in flight",
		func(k store.Key) (bool, error) { return p.room.Stop(ctx, p.by, k, x.run, x.reason) })
}

func abandon(ctx context.Context, p *program, args []string, x *extras) error {
	if err := p.sure("the run of " + args[0] + " ends without a turn"); err != nil {
		return err
	}
	return p.each(ctx, ops.Abandon, args[:1], "the run has ended without a turn; what it did outside stays done",
		"no such run is in flight", func(k store.Key) (bool, error) { return p.room.Abandon(ctx, p.by, k, x.run) })
}

func remove(ctx context.Context, p *program, args []string, _ *extras) error {
	if err := p.sure("session " + args[0] + " goes with all its turns"); err != nil {
		return err
	}
	return p.each(ctx, ops.Delete, args[:1], "the session is deleted", "there was none",
		func(k store.Key) (bool, error) { return p.room.Delete(ctx, p.by, k) })
}

func skip(ctx context.Context, p *program, args []string, x *extras) error {
	if err := p.sure("a reply of " + args[0] + " is given up"); err != nil {
		return err
	}
	return p.each(ctx, ops.SkipDelivery, args[:1], "the oldest owed reply is given up", "no such reply is owed",
		func(k store.Key) (bool, error) { return p.room.SkipDelivery(ctx, p.by, k, x.run) })
}

// answer answers for the effect args[0], or the question args[1] of the session args[0].
func answer(ctx context.Context, p *program, args []string, x *extras) error {
	if x.result != "" && !json.Valid([]byte(x.result)) {
		return usage("-result is no JSON")
	}
	words := 0
	for _, said := range []bool{x.landed, x.notLanded, x.skip} {
		if said {
			words++
		}
	}
	switch {
	case len(args) > 1 && words == 0:
		return p.answerQuestion(ctx, args[0], args[1], x)
	case len(args) > 1:
		return usage("-landed, -not-landed and -skip are for an effect, and a question takes -result")
	case words != 1:
		return usage("give one of -landed, -not-landed and -skip")
	}
	a := ledger.Answer{Landed: x.landed, Skip: x.skip, Sure: x.sure}
	if x.landed && x.result != "" {
		a.Result = json.RawMessage(x.result)
	}
	done, err := p.room.AnswerEffect(ctx, p.by, args[0], a)
	if err != nil {
		return err
	}
	return p.told(doneJSON{Act: "answer", ID: args[0], Done: done},
		args[0]+": answered; the next pass of the drain goes on with its run", args[0]+": not answered")
}

func (p *program) answerQuestion(ctx context.Context, session, id string, x *extras) error {
	if x.result == "" {
		return usage(`give the answer as -result JSON, as {"approved": true}, or {"result": "…"}`)
	}
	k, err := p.session(ctx, session)
	if err != nil {
		return err
	}
	if x.sum == "" {
		if x.sum, err = p.sumOf(ctx, k, id); err != nil {
			return err
		}
	}
	err = p.room.AnswerQuestion(ctx, p.by, k, id, approval.Answer{Data: json.RawMessage(x.result), Sum: x.sum})
	if err != nil {
		return err
	}
	return p.told(doneJSON{Act: "answer", Bot: k.Orchestrator, ID: id, Done: true},
		id+": the answer is left; a process that has the agent runs it within seconds", "")
}

// sumOf returns the sum of a question as it is asked now.
func (p *program) sumOf(ctx context.Context, k store.Key, id string) (string, error) {
	all, err := p.room.Asked(ctx, k)
	for _, asked := range all {
		if asked.ID == id {
			return asked.Sum, err
		}
	}
	if err == nil {
		err = fmt.Errorf("%w: session %q does not ask %q", approval.ErrNotAsked, k.Session, id)
	}
	return "", err
}
