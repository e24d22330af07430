package orchestrator

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// The summaries of the session of a visit.
type summaries struct{ *visit }

func (v *visit) summaries() summaries { return summaries{v} }

// ranged returns the turns up to through that are not summarized yet; false if there are none.
func (v summaries) ranged(through int) (Range, bool) {
	r := Range{Session: v.own.Grant.Session, From: v.summarized, Through: through}
	if r.Through < r.From {
		return r, false
	}
	r.ID = digest(v.engine.identity.name, v.own.Grant.Session, strconv.FormatInt(v.own.Grant.Born, 10),
		strconv.Itoa(r.From), strconv.Itoa(r.Through))[:idLen]
	return r, true
}

// byCount returns the range that is due by the number of turns. If few turns have come since it became due, it is the
// range as it was then: a crash may hide that this range was summarized. If so many have come that another range would
// be due, or Compaction is new to the session, the range ends at the newest turn that is not kept.
func (v summaries) byCount(last int) (Range, bool) {
	c := v.engine.options.Compaction
	due := max(c.After-c.Keep, 1)
	left := last + 1 - v.summarized - c.Keep
	if c.Run == nil || c.After == 0 || c.Due != nil || left < due {
		return Range{}, false
	}
	if left >= 2*due {
		due = left
	}
	return v.ranged(v.summarized + due - 1)
}

// mayCompact reports whether compaction may follow a turn. If it may, the call needs the lease for longer.
func (v summaries) mayCompact(turn int) bool {
	if v.engine.options.Compaction.Run == nil || v.engine.late.pausing(v.own.Grant.Session) {
		return false
	}
	_, due := v.byCount(turn)
	return due || v.engine.options.Compaction.Due != nil && turn-v.engine.options.Compaction.Keep >= v.summarized
}

// follow summarizes the range that is due, if one is.
func (v summaries) follow() {
	if !v.mayCompact(v.newest.Turn) || v.own.Lost() != nil {
		return
	}
	ctx, cancel := v.own.Outliving(v.engine.options.Compaction.Timeout, true)
	defer cancel()
	r, due := v.byCount(v.newest.Turn)
	if !due {
		r, due = v.asked(ctx)
	}
	if !due {
		return
	}
	if err := v.summarize(ctx, r); err != nil {
		v.engine.log.WarnContext(v.own.Ctx, "not compacted; it is tried again",
			"session", v.own.Grant.Session, "from", r.From, "through", r.Through, v.engine.why(err))
	}
	v.engine.late.note(v.own.Grant.Session, ctx.Err() != nil)
}

// asked returns the range that Compaction.Due calls due. It asks about the range of a turn ago first: a crash may have
// hidden that this range was summarized.
func (v summaries) asked(ctx context.Context) (Range, bool) {
	last := v.newest.Turn - v.engine.options.Compaction.Keep
	for _, through := range []int{last - 1, last} {
		r, some := v.ranged(through)
		if !some {
			continue
		}
		due := false
		err := v.engine.functions.run(ctx, func(ctx context.Context) error {
			due = v.engine.options.Compaction.Due(ctx, r)
			return nil
		})
		if err == nil && !due {
			err = ctxcause.Of(ctx) // it gave up, and has not said no
		}
		if err != nil {
			v.engine.log.WarnContext(v.own.Ctx, "not asked whether to compact",
				"session", v.own.Grant.Session, v.engine.why(err))
			v.engine.late.note(v.own.Grant.Session, ctx.Err() != nil)
			return r, false
		}
		if due {
			return r, true
		}
	}
	return Range{}, false
}

// summarize runs Compaction.Run, and notes that it has run.
func (v summaries) summarize(ctx context.Context, r Range) error {
	if err := v.own.Lost(); err != nil {
		return err
	}
	var said Usage
	start := time.Now()
	err := v.engine.functions.run(ctx, func(ctx context.Context) (err error) {
		said, err = v.engine.options.Compaction.Run(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	var newest turnPayload
	_ = json.Unmarshal(v.newest.Payload, &newest) // an imported turn has none
	ev := Event{
		Kind: Compacted, RunID: v.newest.RunID, Turn: v.newest.Turn, Usage: said, Took: time.Since(start),
	}
	v.emit(ev.of(newest.Input.input(v.newest.RequestID)))
	err = v.mark(checkpoint.Marks{Summarized: r.Through + 1})
	if err == nil {
		v.summarized = r.Through + 1
	}
	return err
}
