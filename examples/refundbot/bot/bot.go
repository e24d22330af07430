package bot

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

// Name is the name of the bot. Both versions have it: they share sessions, runs and effects.
const Name = "refunds"

// Payments pays refunds, once for each key.
type Payments interface {
	Refund(ctx context.Context, key, order string, cents int) (receipt string, err error)
	Find(ctx context.Context, key string) (receipt string, found bool, err error)
}

// Options hold the services that the bot uses. Model, Payments, Shop and Messages are required.
type Options struct {
	Model    model.Model
	Payments Payments
	Shop     Shop
	Messages *Messages

	// Limit is the amount in cents up to which no person has to approve. 0 means 100.00.
	Limit int

	// ApprovalTTL is how long a person may take to approve. 0 means 24 hours.
	ApprovalTTL time.Duration

	// Pause is the first pause before the payment provider is asked again. 0 means half a second.
	Pause time.Duration

	// Window bounds the messages that the model sees, in tokens. 0 means 2,000.
	Window int

	// Pace is a pause before each decision about what runs next, so that people can watch.
	Pace time.Duration

	// Now is the clock. nil means time.Now.
	Now func() time.Time
}

func (o Options) orDefaults() Options {
	o.Limit = cmp.Or(o.Limit, 100_00)
	o.ApprovalTTL = cmp.Or(o.ApprovalTTL, 24*time.Hour)
	o.Pause = cmp.Or(o.Pause, 500*time.Millisecond)
	o.Window = cmp.Or(o.Window, 2000)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// bot is the bot over a stored state S. at returns where S has the State that both versions share.
type bot[S any] struct {
	Options
	at func(*S) *State
}

// At returns where a state of version 1 has what both versions share.
func At(s *State) *State { return s }

// At2 is At for version 2.
func At2(s *State2) *State { return &s.Case }

// Definition is version 1 of the bot.
func Definition(o Options) orchestrator.Definition[State] {
	b := &bot[State]{o.orDefaults(), At}
	return b.definition(Version1, migrate1)
}

// Definition2 is version 2. Its state has another form. Both versions go on with what the other has stored, so that a
// deploy from one to the other may come in the middle of a turn, and may be taken back.
func Definition2(o Options) orchestrator.Definition[State2] {
	b := &bot[State2]{o.orDefaults(), At2}
	d := b.definition(Version2, migrate2)
	begin := d.Begin
	d.Begin = func(ctx context.Context, t *orchestrator.Turn[State2]) error {
		t.State.Currency = currency
		return begin(ctx, t)
	}
	return d
}

func (b *bot[S]) definition(
	version string, migrate func(context.Context, checkpoint.Checkpoint) (S, error),
) orchestrator.Definition[S] {
	again := retry.Exponential(3, b.Pause)
	return orchestrator.Definition[S]{
		Name: Name, Version: version, Iterate: true,
		Intents: orchestrator.Intents[S]{
			"classify": {
				Run: b.classify, Description: "finds out what the customer wants", Timeout: time.Minute, Retry: again,
			},
			"order":    {Run: b.order, Description: "looks the order up", Timeout: 5 * time.Second, Retry: again},
			"customer": {Run: b.customer, Description: "looks the customer up", Timeout: 5 * time.Second, Retry: again},
			"decide":   {Run: b.decide, Description: "decides what becomes of the request"},
			"refund":   {Run: b.refund, Description: "pays", Next: orchestrator.To("compose")},
			"compose":  {Run: b.compose, Description: "writes the reply", Timeout: 2 * time.Minute, Retry: again},
		},
		Begin: b.begin, Route: b.route, Evaluate: b.evaluate, Merge: b.merge, Migrate: migrate,
		Deliver: b.deliver,
		Respond: func(r *orchestrator.Result[S]) any { return ReplyOf(r.Input, b.at(&r.State)) },
	}
}

// Configure sets what the bot needs of the options of an orchestrator.
func Configure(o *orchestrator.Options, of Options) {
	of = of.orDefaults()
	o.History = func(ctx context.Context, session string) ([]message.Message, error) {
		all, err := of.Messages.Of(ctx, session)
		return message.Fit(all, of.Window, tokens), err
	}
	o.RequireDelivered = true            // the history of a turn has the turn before
	o.Limits.LockWait = 10 * time.Second // a customer waits; a process that was killed is replaced sooner
	o.Compaction = orchestrator.Compaction{After: 12, Keep: 6, Run: func(
		ctx context.Context, r orchestrator.Range,
	) (orchestrator.Usage, error) {
		return compact(ctx, of, r)
	}}
}

// tokens estimates what a message costs the model.
func tokens(m message.Message) (n int) {
	for _, b := range m.Blocks {
		n += 4 + len(b.Text)/4
	}
	return n
}

// begin clears what belongs to the turn before, and takes what the input says.
func (b *bot[S]) begin(ctx context.Context, t *orchestrator.Turn[S]) (err error) {
	s := b.at(&t.State)
	*s = State{
		Order: s.Order, Expects: s.Expects, Next: s.Next,
		Proposals: s.Proposals, Refunded: s.Refunded, Verdicts: s.Verdicts,
	}
	if strings.TrimSpace(t.Input.Text) == "" {
		return &orchestrator.InputError{Field: "message", Reason: "empty"}
	}
	approval, err := approvalIn(t.Input)
	if err != nil {
		return err
	}
	if approval != nil {
		return s.approve(approval, b.Now())
	}
	s.expire(b.Now())
	s.Recalled, err = b.Messages.Recall(ctx, t.Session, 3)
	return err
}

// approve takes the answer of a person. The turn goes on where the proposal was made.
func (s *State) approve(a *Approval, now time.Time) error {
	p := s.proposal(func(p Proposal) bool { return p.ID == a.Proposal })
	if p == nil || !now.Before(p.Expires) {
		return &orchestrator.InputError{Field: "approval", Reason: "the question is not open any more"}
	}
	if s.Expects == ExpectsYes && s.Order != p.Order { // the customer has not answered yet
		s.Next, s.Expects = &Request{model.Refund, []string{s.Order}}, ExpectsNext
	}
	s.Category, s.Order, s.Approval = model.Refund, p.Order, a
	s.drop(p.ID)
	return nil
}

// proposal returns the first proposal that fits; nil if none does.
func (s *State) proposal(fits func(Proposal) bool) *Proposal {
	for _, p := range s.Proposals {
		if fits(p) {
			return &p
		}
	}
	return nil
}

// drop removes a proposal.
func (s *State) drop(id string) {
	s.keep(func(p Proposal) bool { return p.ID != id })
}

// keep keeps the proposals that fit.
func (s *State) keep(fits func(Proposal) bool) {
	var kept []Proposal
	for _, p := range s.Proposals {
		if fits(p) {
			kept = append(kept, p)
		}
	}
	s.Proposals = kept
}

// expire drops the proposals that were not answered in time.
func (s *State) expire(now time.Time) {
	for _, p := range s.Proposals {
		if !now.Before(p.Expires) {
			s.Expired = append(s.Expired, p)
		}
	}
	s.keep(func(p Proposal) bool { return now.Before(p.Expires) })
}

// route decides by what is known what runs next.
func (b *bot[S]) route(ctx context.Context, t *orchestrator.Turn[S]) (orchestrator.Next, error) {
	if err := sleep(ctx, b.Pace); err != nil {
		return orchestrator.Next{}, err
	}
	s := b.at(&t.State)
	switch {
	case s.Reply != "":
		return orchestrator.End, nil
	case s.Category == "":
		return orchestrator.To("classify"), nil
	case s.Category == model.Other, s.Decision != "" && s.Decision != Refund:
		return orchestrator.To("compose"), nil
	case s.Decision == Refund:
		return orchestrator.To("refund"), nil
	case s.Order != "" && !ran(t, "order"):
		return orchestrator.To("order", "customer"), nil
	}
	return orchestrator.To("decide"), nil
}

func ran[S any](t *orchestrator.Turn[S], intent string) bool {
	for _, name := range t.Ran {
		if name == intent {
			return true
		}
	}
	return false
}

// merge joins what the two look-ups have found.
func (b *bot[S]) merge(base S, branches []S) (S, error) {
	s := b.at(&base)
	for i := range branches {
		branch := b.at(&branches[i])
		s.Found, s.Customer = cmp.Or(branch.Found, s.Found), cmp.Or(branch.Customer, s.Customer)
	}
	return base, nil
}

// evaluate sends a reply back that promises too much, once.
func (b *bot[S]) evaluate(_ context.Context, t *orchestrator.Turn[S]) (orchestrator.Next, error) {
	s := b.at(&t.State)
	if s.Reply == "" || t.Feedback != "" || !promises(s.Reply) {
		return orchestrator.Next{}, nil
	}
	t.Feedback = "Promise nothing that the facts do not say."
	return orchestrator.To("compose"), nil
}

// promises reports whether a reply promises what the shop cannot keep.
func promises(reply string) bool {
	reply = strings.ToLower(reply)
	return strings.Contains(reply, "guarantee") || strings.Contains(reply, "i promise")
}
