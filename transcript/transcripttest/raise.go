package transcripttest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/transcript"
)

// RaisingStore is a store that can be told that it may have lost entries.
type RaisingStore interface {
	transcript.Store
	transcript.Raiser
}

// RunRaiser checks the clauses of [transcript.Raiser]. newStore must return an empty store each time it is called.
func RunRaiser(t *testing.T, newStore func(t *testing.T) RaisingStore) {
	raiseContract().Run(t, newStore)
}

// RaiseViolations is [Violations] for the clauses of RunRaiser.
func RaiseViolations(ctx context.Context, newStore func() RaisingStore, names ...string) map[string]error {
	return raiseContract().Violations(ctx, newStore, names...)
}

func raiseContract() suite.Clauses[RaisingStore] {
	return suite.Of(raiseClauses, func(c raiseClause) suite.Clause[RaisingStore] {
		return suite.Clause[RaisingStore]{
			Name: c.name, Rule: c.rule, Check: func(ctx context.Context, s RaisingStore) error {
				c.check(&probe{ctx: ctx, store: s}, s)
				return nil
			},
		}
	})
}

// A raiseClause is a clause about a store that may have lost entries.
type raiseClause struct {
	name, rule string
	check      func(p *probe, s RaisingStore)
}

// lost is a number that no entry of a clause has, and a lost one may have had.
const lost = 1 << 40

// wantBehind appends an entry, and checks that its number is behind all that may be lost. It returns the number.
func (p *probe) wantBehind(session, id string, least int64) int64 {
	got := p.sayIn(key(session), id, 2)
	if got.From <= least || got.Through != got.From+1 {
		fail("Append of 2 messages to %q returns %v, want numbers above %d", session, got, least)
	}
	return got.From
}

var raiseClauses = []raiseClause{
	{
		name: "raise",
		rule: "after Raise the next entry comes behind all numbers that can have been lost",
		check: func(p *probe, s RaisingStore) {
			p.say("a", 2)
			ok(s.Raise(p.ctx))
			n := p.wantBehind("s", "b", lost)
			p.wantSaid("b", 2, span(n, n+1))
			p.wantSaid("c", 1, span(n+2, n+2))
			p.wantRead(key("s"), []transcript.Span{span(1, 3), span(n-1, n+2)}, "a.1", "a.2", "!3",
				missing(n-1, n-1), "b.1", "b.2", "c.1")
		},
	},
	{
		name: "raise-unknown",
		rule: "after Raise a session that the store does not know has numbers behind all that can have been lost",
		check: func(p *probe, s RaisingStore) {
			p.sayIn(key("gone"), "a", 1)
			p.trim(key("gone"), zero, 1)
			ok(s.Raise(p.ctx))
			for _, session := range []string{"gone", "new"} {
				n := p.wantBehind(session, "a", lost)
				p.wantSaidIn(key(session), "b", 1, span(n+2, n+2))
				p.trim(key(session), zero, 3)
				p.wantBehind(session, "a", lost)
			}
		},
	},
	{
		name: "raise-keeps",
		rule: "what was there before Raise stays: its numbers, its ids, and what Trim and Copy do with it",
		check: func(p *probe, s RaisingStore) {
			p.say("a", 2)
			p.say("b", 1)
			ok(s.Raise(p.ctx))
			p.wantSaid("a", 2, span(1, 2))
			p.wantSaid("b", 1, span(3, 3))
			p.wantAll("a.1", "a.2", "b.1")
			p.trim(key("s"), future, 2)
			p.wantRead(key("s"), []transcript.Span{span(1, 3)}, "!1 to 2", "b.1")
			n := p.wantBehind("s", "c", lost)
			p.trim(key("s"), future, 1)
			p.wantRead(key("s"), []transcript.Span{span(3, 3), span(n, n+1)}, "!3", "c.1", "c.2")
		},
	},
	{
		name: "raise-copy",
		rule: "after Raise a copy has the numbers of its source, and its next entry is behind all that can be lost",
		check: func(p *probe, s RaisingStore) {
			p.say("a", 2)
			p.copy(key("s"), key("before"), span(1, 2))
			ok(s.Raise(p.ctx))
			p.copy(key("s"), key("after"), span(1, 2))
			for _, session := range []string{"before", "after"} {
				p.wantAllIn(key(session), "a.1", "a.2")
				p.wantBehind(session, "b", lost)
			}
		},
	},
	{
		name: "raise-again",
		rule: "Raise may be repeated, and no number is given that was given since the last one",
		check: func(p *probe, s RaisingStore) {
			last := int64(lost)
			for range 3 {
				ok(s.Raise(p.ctx))
				ok(s.Raise(p.ctx))
				n := p.wantBehind("s", "a", last)
				last = max(p.wantBehind("t", "a", last), n) + 1
				p.trim(key("s"), zero, 2) // it is lost
				p.trim(key("t"), zero, 2)
			}
			ok(s.Raise(p.ctx))
			n := p.wantBehind("s", "a", last)
			ok(s.Raise(p.ctx))
			p.wantBehind("s", "b", n+1)
		},
	},
	{
		name: "raise-race",
		rule: "if owners append while the store is raised, each number is given once",
		check: func(p *probe, s RaisingStore) {
			all, acts := p.owners(crowd, func(i int) string { return fmt.Sprint("by ", i) })
			var err error
			suite.Together(append(acts, func() { err = s.Raise(p.ctx) })...)
			ok(err)
			given := make(map[int64]string)
			for _, o := range all {
				ok(o.err)
				for n := o.span.From; n <= o.span.Through; n++ {
					if given[n] != "" {
						fail("%q and %q have the number %d", given[n], o.id, n)
					}
					given[n] = o.id
				}
				p.wantRead(key("s"), []transcript.Span{o.span}, o.said...)
			}
			p.wantBehind("s", "last", lost)
		},
	},
	{
		name: "raise-cancelled",
		rule: "Raise with a ctx that is done returns its cause, and changes nothing",
		check: func(p *probe, s RaisingStore) {
			p.say("a", 1)
			ctx, cancel := context.WithCancelCause(p.ctx)
			reason := errors.New("reason")
			cancel(reason)
			want(s.Raise(ctx), reason)
			p.wantSaid("b", 1, span(2, 2))
		},
	},
}
