package transcripttest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/transcript"
)

const (
	// crowd is how many owners append at once.
	crowd = 8

	// races is how often a clause repeats what a few callers do at once.
	races = 12
)

// An owner appends an entry of its own at the same time as others.
type owner struct {
	id   string
	said []string
	span transcript.Span
	err  error
}

// owners returns n owners, and what each of them does. id returns the id of the entry of an owner.
func (p *probe) owners(n int, id func(i int) string) (all []owner, acts []func()) {
	all = make([]owner, n)
	for i := range all {
		o := &all[i]
		o.id = id(i)
		o.said = texts(fmt.Sprint("owner", i, " ", o.id), 1+i%3)
		acts = append(acts, func() { o.span, o.err = p.store.Append(p.ctx, key("s"), o.id, said(o.said...)) })
	}
	return all, acts
}

// wantHeard checks that each owner has its numbers, and that they follow each other from a number on. It returns the
// next number.
func (p *probe) wantHeard(from int64, all []owner) int64 {
	slices.SortFunc(all, func(a, b owner) int { return cmp.Compare(a.span.From, b.span.From) })
	for _, o := range all {
		if ok(o.err); o.span != span(from, from+int64(len(o.said))-1) {
			fail("the numbers of the owners are %s, want those from %d on", spans(all), from)
		}
		p.wantRead(key("s"), []transcript.Span{o.span}, o.said...)
		from = o.span.Through + 1
	}
	return from
}

func spans(all []owner) (text string) {
	for _, o := range all {
		text += fmt.Sprintf("%d of %q at %v; ", len(o.said), o.id, o.span)
	}
	return text
}

var raceClauses = []clause{
	{
		name: "race",
		rule: "if several owners append at once, each number is given once, and no number is left out",
		check: func(p *probe) {
			next := int64(1)
			for round := range races {
				all, acts := p.owners(crowd, func(i int) string { return fmt.Sprint(round, " by ", i) })
				suite.Together(acts...)
				before := next
				next = p.wantHeard(next, all)
				for i := range acts {
					acts[i]() // each repeat finds its entry
				}
				if after := p.wantHeard(before, all); after != next {
					fail("the next number was %d, and is %d", next, after)
				}
			}
			p.wantSaid("last", 1, span(next, next))
		},
	},
	{
		name: "race-same",
		rule: "if several owners append one id at once, there is one entry, and all return its span",
		check: func(p *probe) {
			next := int64(1)
			for round := range races {
				all, acts := p.owners(crowd, func(int) string { return fmt.Sprint("step ", round) })
				suite.Together(acts...)
				for _, o := range all {
					if ok(o.err); o.span != all[0].span {
						fail("one step has the numbers %s", spans(all))
					}
				}
				got, _ := p.read(key("s"), all[0].span)
				ours := func(o owner) bool { return slices.Equal(o.said, got) }
				if all[0].span.From != next || !slices.ContainsFunc(all, ours) {
					fail("the entry is %q at %v, and one owner's entry from %d on was wanted", got, all[0].span, next)
				}
				next = all[0].span.Through + 1
			}
			p.wantSaid("last", 1, span(next, next))
		},
	},
	{
		name: "race-copy",
		rule: "if a session is copied several times at once, each copy succeeds, and the session has it once",
		check: func(p *probe) {
			p.say("a", 2)
			p.say("b", 1)
			p.say("c", 2)
			for round := range races {
				k := key(fmt.Sprint("copy", round))
				var errs [4]error
				var acts []func()
				for i := range errs {
					acts = append(acts, func() {
						errs[i] = p.store.Copy(p.ctx, key("s"), k, []transcript.Span{span(1, int64(2+i))})
					})
				}
				suite.Together(acts...)
				ok(errors.Join(errs[:]...))
				p.wantAllIn(k, "a.1", "a.2", "b.1", "c.1", "c.2")
				p.wantSaidIn(k, "next", 1, span(6, 6))
			}
		},
	},
	{
		name: "race-copy-others",
		rule: "if a session gets copies of several sessions at once, it has all of one, and the others are ErrTaken",
		check: func(p *probe) {
			const sources, entries = 3, 4
			text := func(source int, entry string) string { return fmt.Sprint("source", source, entry) }
			all := []transcript.Span{span(1, entries)}
			for round := range races {
				k := key(fmt.Sprint("copy", round))
				var errs [sources]error
				var acts []func()
				for i := range errs {
					from := key(fmt.Sprint("source", i))
					for n := range entries {
						p.sayIn(from, text(i, fmt.Sprint(" e", n)), 1)
					}
					acts = append(acts, func() { errs[i] = p.store.Copy(p.ctx, from, k, all) })
				}
				suite.Together(acts...)
				won := slices.Index(errs[:], nil)
				if won < 0 {
					fail("no copy succeeds: %v", errs)
				}
				for i, err := range errs {
					if i != won {
						want(err, transcript.ErrTaken)
					}
				}
				var texts []string
				for n := range entries {
					texts = append(texts, text(won, fmt.Sprint(" e", n))+".1")
				}
				p.wantAllIn(k, texts...)
			}
		},
	},
	{
		name: "race-copy-append",
		rule: "if an owner appends while the session gets a copy, Copy copies all, or nothing and returns ErrTaken",
		check: func(p *probe) {
			all := append(texts("a", 1), texts("b", 1)...)
			p.say("a", 1)
			p.say("b", 1)
			for round := range races {
				k := key(fmt.Sprint("copy", round))
				var s transcript.Span
				var appended, copied error
				suite.Together(
					func() { s, appended = p.store.Append(p.ctx, k, "own", said("own.1")) },
					func() { copied = p.store.Copy(p.ctx, key("s"), k, []transcript.Span{span(1, 2)}) },
				)
				ok(appended)
				if copied == nil {
					p.wantAllIn(k, append(slices.Clone(all), "own.1")...)
				} else {
					want(copied, transcript.ErrTaken)
					p.wantAllIn(k, "own.1")
				}
				p.wantSaidIn(k, "own", 1, s)
				p.wantSaidIn(k, "next", 1, span(s.From+1, s.From+1))
			}
		},
	},
	{
		name: "race-trim",
		rule: "if owners append while the session is trimmed, no number is given twice, and what is named stays",
		check: func(p *probe) {
			p.say("named", 2)
			next := int64(3)
			for round := range races {
				all, acts := p.owners(4, func(i int) string { return fmt.Sprint(round, " by ", i) })
				var trimmed error
				acts = append(acts, func() {
					_, trimmed = p.store.Trim(p.ctx, key("s"), []transcript.Span{span(1, 1)}, future)
				})
				suite.Together(acts...)
				ok(trimmed)
				slices.SortFunc(all, func(a, b owner) int { return cmp.Compare(a.span.From, b.span.From) })
				for i, o := range all {
					if ok(o.err); o.span != span(next, next+int64(len(o.said))-1) {
						fail("the numbers of the owners are %s, want those from %d on", spans(all), next)
					}
					got, _ := p.read(key("s"), o.span)
					if here := slices.Equal(got, o.said); !here && (i == len(all)-1 || !isDamage(got[0])) {
						fail("owner %q has said %q, and there is %q", o.id, o.said, got)
					}
					next = o.span.Through + 1
				}
				p.wantRead(key("s"), []transcript.Span{span(1, 2)}, "named.1", "named.2")
			}
			p.wantSaid("last", 1, span(next, next))
		},
	},
	{
		name: "race-trim-all",
		rule: "if owners append while all is deleted, an entry is there as Append says, or is deleted",
		check: func(p *probe) {
			for round := range races {
				p.say(fmt.Sprint("old ", round), 2)
				all, acts := p.owners(3, func(i int) string { return fmt.Sprint(round, " by ", i) })
				var trimmed error
				acts = append(acts, func() { _, trimmed = p.store.Trim(p.ctx, key("s"), nil, zero) })
				suite.Together(acts...)
				ok(trimmed)
				there := 0
				for _, o := range all {
					ok(o.err)
					again, err := p.store.Append(p.ctx, key("s"), o.id, said(o.said...))
					ok(err)
					p.wantRead(key("s"), []transcript.Span{again}, o.said...)
					there += len(o.said)
				}
				p.trim(key("s"), zero, there)
			}
		},
	},
}
