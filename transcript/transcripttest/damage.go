package transcripttest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/transcript"
)

// A DamagingStore can damage an entry, as a manual change in the database or a lost block of its disk does. Only the
// tests of a backend know how to do so.
type DamagingStore interface {
	transcript.Store

	// Damage changes what is stored of an entry so that no store could have written it. s is the numbers of the entry.
	// They stay, and so does its id.
	Damage(ctx context.Context, k transcript.Key, s transcript.Span) error
}

// RunDamaged checks the clauses about damaged entries. newStore must return an empty store each time it is called.
func RunDamaged(t *testing.T, newStore func(t *testing.T) DamagingStore) {
	damageContract().Run(t, newStore)
}

// DamageViolations is [Violations] for the clauses about damaged entries.
func DamageViolations(ctx context.Context, newStore func() DamagingStore, names ...string) map[string]error {
	return damageContract().Violations(ctx, newStore, names...)
}

func damageContract() suite.Clauses[DamagingStore] {
	return suite.Of(damageClauses, func(c damageClause) suite.Clause[DamagingStore] {
		return suite.Clause[DamagingStore]{
			Name: c.name, Rule: c.rule, Check: func(ctx context.Context, s DamagingStore) error {
				c.check(&probe{ctx: ctx, store: s}, s)
				return nil
			},
		}
	})
}

// A damageClause is a clause about damaged entries.
type damageClause struct {
	name, rule string
	check      func(p *probe, s DamagingStore)
}

// spoil appends three entries of two messages, and damages the one in the middle.
func spoil(p *probe, s DamagingStore) {
	for _, id := range []string{"a", "b", "c"} {
		p.say(id, 2)
	}
	ok(s.Damage(p.ctx, key("s"), span(3, 4)))
}

// wantSpoiled checks what spoil has left.
func wantSpoiled(p *probe) {
	p.wantRead(key("s"), []transcript.Span{span(1, 6)}, "a.1", "a.2", "!3 to 4", "c.1", "c.2")
}

var damageClauses = []damageClause{
	{
		name: "read",
		rule: "if an entry is damaged, Read yields a *DamagedError that has its numbers in its place, and goes on",
		check: func(p *probe, s DamagingStore) {
			spoil(p, s)
			wantSpoiled(p)
			for _, c := range []struct {
				spans []transcript.Span
				want  []string
			}{
				{[]transcript.Span{span(4, 5), span(3, 3)}, []string{"!3 to 4", "c.1", "!3 to 4"}},
				{[]transcript.Span{span(3, 4), span(2, 2)}, []string{"!3 to 4", "a.2"}},
				{[]transcript.Span{span(4, 4), span(1, 3)}, []string{"!3 to 4", "a.1", "a.2", "!3 to 4"}},
			} {
				p.wantRead(key("s"), c.spans, c.want...)
			}
		},
	},
	{
		name: "read-many",
		rule: "Read yields a *DamagedError for each damaged entry of many, and all messages of the others",
		check: func(p *probe, s DamagingStore) {
			const n = 150
			var want []string
			for i := range int64(n) {
				id := fmt.Sprint("e", i+1)
				p.say(id, 1)
				want = append(want, id+".1")
			}
			for _, bad := range []int64{1, 2, 22, 63, 64, 65, 80, 128, 129, 149, 150} {
				ok(s.Damage(p.ctx, key("s"), span(bad, bad)))
				want[bad-1] = missing(bad, bad)
			}
			p.wantRead(key("s"), []transcript.Span{span(1, n)}, want...)
			p.wantRead(key("s"), []transcript.Span{span(60, 70)}, want[59:70]...)
		},
	},
	{
		name: "apart",
		rule: "a damaged entry does not concern other entries and sessions",
		check: func(p *probe, s DamagingStore) {
			p.sayIn(key("t"), "a", 4)
			spoil(p, s)
			p.wantAllIn(key("t"), "a.1", "a.2", "a.3", "a.4")
			p.wantSaid("a", 2, span(1, 2))
			p.wantSaid("d", 1, span(7, 7))
			p.copy(key("s"), key("u"), span(1, 2), span(5, 7))
			p.wantRead(key("u"), []transcript.Span{span(1, 7)}, "a.1", "a.2", "!3 to 4", "c.1", "c.2", "d.1")
			wantSpoiled(p)
		},
	},
	{
		name: "again",
		rule: "to append a damaged entry again returns its span or a *DamagedError, and nothing changes",
		check: func(p *probe, s DamagingStore) {
			spoil(p, s)
			got, err := s.Append(p.ctx, key("s"), "b", said("other", "messages"))
			switch {
			case err != nil:
				damage(key("s"), err)
			case got != span(3, 4):
				fail("the entry has the numbers %v, want 3 to 4", got)
			}
			wantSpoiled(p)
			p.wantSaid("d", 1, span(7, 7))
		},
	},
	{
		name: "newest",
		rule: "what is appended behind a damaged entry has the numbers behind it",
		check: func(p *probe, s DamagingStore) {
			p.say("a", 2)
			p.say("b", 2)
			ok(s.Damage(p.ctx, key("s"), span(3, 4)))
			p.wantSaid("c", 1, span(5, 5))
			p.wantRead(key("s"), []transcript.Span{span(1, 6)}, "a.1", "a.2", "!3 to 4", "c.1", "!6")
		},
	},
	{
		name: "copied",
		rule: "Copy of a damaged entry copies it, damaged, or returns ErrDamaged and copies nothing",
		check: func(p *probe, s DamagingStore) {
			spoil(p, s)
			err := s.Copy(p.ctx, key("s"), key("t"), []transcript.Span{span(1, 6)})
			if err != nil {
				want(err, transcript.ErrDamaged)
				p.wantAllIn(key("t"))
			} else {
				p.wantRead(key("t"), []transcript.Span{span(1, 6)}, "a.1", "a.2", "!3 to 4", "c.1", "c.2")
			}
			wantSpoiled(p)
		},
	},
	{
		name: "copied-onto",
		rule: "Copy onto a damaged entry returns ErrTaken or ErrDamaged, and nothing changes",
		check: func(p *probe, s DamagingStore) {
			p.sayIn(key("t"), "all", 6)
			p.copy(key("t"), key("u"), span(1, 6))
			for _, id := range []string{"a", "b", "c"} {
				p.sayIn(key("v"), id, 2)
			}
			spoil(p, s)
			for _, from := range []string{"u", "v"} {
				err := s.Copy(p.ctx, key(from), key("s"), []transcript.Span{span(1, 6)})
				if !errors.Is(err, transcript.ErrDamaged) {
					want(err, transcript.ErrTaken)
				}
				wantSpoiled(p)
			}
		},
	},
	{
		name: "trimmed",
		rule: "Trim treats a damaged entry as any other",
		check: func(p *probe, s DamagingStore) {
			spoil(p, s)
			p.trim(key("s"), past, 0)
			p.trim(key("s"), future, 2, span(4, 4))
			p.wantRead(key("s"), []transcript.Span{span(1, 6)}, "!1 to 2", "!3 to 4", "c.1", "c.2")
			p.trim(key("s"), future, 2)
			p.wantRead(key("s"), []transcript.Span{span(1, 6)}, "!1 to 4", "c.1", "c.2")
			ok(s.Damage(p.ctx, key("s"), span(5, 6)))
			p.trim(key("s"), future, 0)
			p.wantSaid("d", 1, span(7, 7))
			p.trim(key("s"), zero, 3)
			p.wantAll()
			p.wantSaid("a", 1, span(1, 1))
		},
	},
}
