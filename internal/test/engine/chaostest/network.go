package chaostest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/lock"
)

var (
	errLost = errors.New("the connection was lost")
	// errDead is a verdict, so that the engine does not try for long.
	errDead = fmt.Errorf("the process is dead: %w", lock.ErrFenced)
)

// A message is a request to a store. Its sender waits for the reply. A running function of the bot is a message too: it
// waits until the scheduler lets it return.
type message struct {
	from *process
	// call is nil for a renewal, which belongs to no call.
	call    *call
	op      string
	session string
	epoch   int64 // of a renewal of one lease
	about   []any // for the history

	read bool // a copy has no effect
	// sharp: a copy would do harm if the store accepted it. Sharp messages are lost and doubled more often.
	sharp  bool
	branch bool // an intent beside another one

	ctx context.Context // the sender's
	// send asks the store. It is nil for a function of the bot.
	send func(context.Context) reply
	// ended gets the error that a function of the bot returns.
	ended func(error)

	back chan reply
	// answer is the store's reply, which the sender does not have yet.
	answer *reply
}

type reply struct {
	value any
	err   error
}

// ask sends a request and waits for the reply.
func ask[T any](ctx context.Context, p *process, m message, do func(context.Context, *call) (T, error)) (T, error) {
	m.call = callOf(ctx)
	m.send = func(ctx context.Context) reply {
		value, err := do(ctx, m.call)
		return reply{value, err}
	}
	r := p.exchange(ctx, &m)
	value, _ := r.value.(T)
	return value, r.err
}

// tell is ask for requests whose reply is only an error.
func tell(ctx context.Context, p *process, m message, do func(context.Context, *call) error) error {
	_, err := ask(ctx, p, m, func(ctx context.Context, c *call) (struct{}, error) { return struct{}{}, do(ctx, c) })
	return err
}

// exchange hands a message to the scheduler and waits for the reply.
func (p *process) exchange(ctx context.Context, m *message) reply {
	m.from, m.ctx = p, ctx
	w := p.simulation
	if p.heals {
		return w.direct(m)
	}
	m.back = make(chan reply, 1)
	w.mu.Lock()
	if p.dead {
		w.mu.Unlock()
		return reply{err: errDead}
	}
	w.pending = append(w.pending, m)
	w.mu.Unlock()
	return <-m.back
}

// direct answers the process that heals at the end. Renewals come from a goroutine of their own, and direct does not
// note them.
func (w *simulation) direct(m *message) reply {
	switch {
	case m.send == nil:
		m.ended(nil)
		return reply{}
	case m.op == "Renew":
		return m.send(m.ctx)
	}
	return w.send(m)
}

// byName orders the messages of one step. The goroutines that sent them ran in any order.
func byName(a, b *message) int {
	return cmp.Or(cmp.Compare(a.from.number, b.from.number), cmp.Compare(a.call.number(), b.call.number()),
		cmp.Compare(a.op, b.op), cmp.Compare(a.session, b.session), cmp.Compare(a.epoch, b.epoch))
}

// serve lets one event happen to a message.
func (w *simulation) serve(m *message) {
	switch {
	case m.send == nil:
		w.finish(m)
	case m.ctx.Err() != nil:
		w.giveUp(m)
	case m.answer != nil:
		w.hand(m, *m.answer)
	default:
		w.transmit(m)
	}
}

// transmit sends a request or loses it, and returns its reply or loses it.
func (w *simulation) transmit(m *message) {
	dice := w.rng.IntN(1000)
	hit := func(permille int) bool {
		dice -= permille
		return dice < 0
	}
	astray, twice := w.plan.astray, w.plan.twice
	if m.sharp {
		astray, twice = 3*astray, 3*twice
	}
	switch {
	case hit(w.plan.lost), m.read && hit(astray):
		w.note("request lost: %v", m)
		w.fault(m)
	case hit(astray):
		w.note("request goes astray: %v", m)
		w.late = append(w.late, m)
		w.fault(m)
	case hit(w.plan.deaf):
		w.send(m)
		w.note("reply lost: %v", m)
		w.fault(m)
	case hit(w.plan.slow):
		answer := w.send(m)
		m.answer = &answer
	case !m.read && hit(twice):
		w.late = append(w.late, m)
		w.hand(m, w.send(m))
	default:
		w.hand(m, w.send(m))
	}
}

// send asks the store.
func (w *simulation) send(m *message) reply {
	ctx := context.Background()
	if !w.time.virtual {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	r := m.send(ctx)
	w.note("%v: %v", m, r)
	return r
}

// fault tells the sender that the connection was lost.
func (w *simulation) fault(m *message) {
	w.tally.Lost++
	m.call.disturb()
	w.reply(m, reply{err: errLost})
}

// giveUp tells the sender that its context has ended. The request may be on its way.
func (w *simulation) giveUp(m *message) {
	if m.answer == nil && !m.read && w.chance(600) {
		w.late = append(w.late, m)
	}
	w.note("too late: %v", m)
	m.call.disturb()
	w.reply(m, reply{err: ctxcause.Of(m.ctx)})
}

// hand gives the sender its reply.
func (w *simulation) hand(m *message, r reply) {
	if m.answer != nil {
		w.note("reply arrives: %v", m)
	}
	w.reply(m, r)
}

func (w *simulation) reply(m *message, r reply) {
	w.forget(m)
	m.back <- r
}

// finish lets a function of the bot return.
func (w *simulation) finish(m *message) {
	var err error
	switch {
	case m.ctx.Err() != nil && w.chance(900):
		err = ctxcause.Of(m.ctx)
	case w.chance(w.plan.fails):
		err = errBot
	}
	w.note("%v: %v", m, reply{err: err})
	m.ended(err)
	w.reply(m, reply{err: err})
}

// arrive delivers a late copy of a request.
func (w *simulation) arrive() {
	i := w.rng.IntN(len(w.late))
	m := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	w.tally.Late++
	w.note("arrives late:")
	w.send(m)
}

// forget removes a message from the waiting messages.
func (w *simulation) forget(m *message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = slices.DeleteFunc(w.pending, func(other *message) bool { return other == m })
}
