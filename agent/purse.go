package agent

import (
	"context"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// A purse is what is left of a budget, for the children of a reply. They run one after the other: at once, each could
// be over its part by a call, and one alone can be over the budget by no more than that.
type purse struct {
	left     func() float64
	held     float64 // by children that wait, and have not used up their parts
	children int     // that have not been asked
}

// A grant is what a child may cost from now on. It is in the context of the child's turn, and not in its input: a
// repeat of a call is the same input, also if the grant is another one.
type grant struct {
	session string
	cost    float64
}

type grantKey struct{}

// limit takes the grant of a session that an agent has called as a child.
func (s *State[C]) limit(ctx context.Context, session string) {
	p, ok := ctx.Value(grantKey{}).(grant)
	if !ok || p.session != session {
		return
	}
	if s.Most = s.Spent.Cost + p.cost; s.Most <= 0 {
		s.Most = -1
	}
}

// purse returns the purse of the calls that are open, or nil if there is no limit.
func (a *Agent[C]) purse(t *Turn[C]) *purse {
	if _, limited := a.left(t); !limited {
		return nil
	}
	p := &purse{left: func() float64 { left, _ := a.left(t); return left }}
	for _, o := range t.State.Open {
		if p.held += o.Left; o.Child != "" && !o.Asked {
			p.children++
		}
	}
	return p
}

// grant returns what a child may cost from now on: an equal part of what is left by now.
func (p *purse) grant(o *Open) grant {
	p.held -= o.Left
	cost := p.left() - p.held
	if !o.Asked {
		cost /= float64(p.children)
		p.children--
	}
	return grant{o.Child, cost}
}

// uncounted returns what a child has used, and what is not counted yet: it was answered in its own session.
func uncounted(now *childTurn, counted orchestrator.Usage) orchestrator.Usage {
	counted = plus(counted, now.used)
	u := orchestrator.Usage{
		Input: max(now.spent.Input-counted.Input, 0), Output: max(now.spent.Output-counted.Output, 0),
	}
	if cost := now.spent.Cost - counted.Cost; cost > 1e-9 {
		u.Cost = cost
	}
	return u
}

func plus(a, b orchestrator.Usage) orchestrator.Usage {
	a.Input, a.Output, a.Cost = a.Input+b.Input, a.Output+b.Output, a.Cost+b.Cost
	return a
}
