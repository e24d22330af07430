package checkpointtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// Times of labels. A store keeps milliseconds of them.
var (
	never time.Time
	soon  = time.Date(2030, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	late  = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	first = time.Unix(0, 0).UTC()
)

var labelClauses = []clause{
	{
		name: "labels",
		rule: "with Relabel the labels of a session become exactly Labels, and without it they stay",
		check: func(p *probe) {
			l := p.labeled("a", label("user:1", never), label("wait", never))
			p.wantLabeled("user:1", "a")
			p.wantLabeled("wait", "a")
			p.append(l, turn(1))
			p.wantLabeled("wait", "a")
			ok(p.store.Append(p.ctx, l, turn(2), relabel(label("tag", never), label("user:1", never))))
			p.wantLabeled("user:1", "a")
			p.wantLabeled("wait")
			p.wantLabeled("tag", "a")
			ok(p.store.Append(p.ctx, l, turn(3), relabel()))
			p.wantLabeled("user:1")
			p.wantLabeled("tag")
			ok(p.store.Append(p.ctx, l, turn(4), relabel(label("wait", never))))
			p.wantLabeled("wait", "a")
		},
	},
	{
		name: "labels-names",
		rule: "a label is found by its whole name, byte by byte",
		check: func(p *probe) {
			long := strings.Repeat("é", 128)
			names := []string{
				"a", "aa", "A", "a_", "a%", "a*", "a/1", "a:1", "é", "e\u0301", "\uffff", " ", `"'\`, "{}", long, long[2:],
			}
			for i, name := range names {
				p.labeled(fmt.Sprint("s", i), label(name, soon))
			}
			for i, name := range names {
				p.wantLabeled(name, fmt.Sprint("s", i))
				p.wantBy(name, late, fmt.Sprint("s", i))
			}
			p.wantLabeled("a1")
		},
	},
	{
		name: "labels-many",
		rule: "a session has up to MostLabels labels, and a label many sessions",
		check: func(p *probe) {
			var all []checkpoint.Label
			var names []string
			for i := range checkpoint.MostLabels {
				all = append(all, label(fmt.Sprint("label", i), soon))
			}
			slices.Reverse(all)
			for i := range 70 {
				id := fmt.Sprintf("s%02d", i)
				p.labeled(id, all[i%5:]...)
				names = append(names, id)
			}
			p.wantLabeled("label0", names...)
			p.wantBy("label59", soon, names...)
			p.wantLabeled("label63", names[0], names[5], names[10], names[15], names[20], names[25], names[30],
				names[35], names[40], names[45], names[50], names[55], names[60], names[65])
		},
	},
	{
		name: "labels-due",
		rule: "By selects the labels with an At that is not after it; a Relabel changes At, and the zero At is never",
		check: func(p *probe) {
			l := p.labeled("b", label("wait", soon), label("other", first))
			p.labeled("a", label("wait", late))
			p.labeled("c", label("wait", never))
			p.labeled("d", label("wait", first))
			p.wantLabeled("wait", "a", "b", "c", "d")
			p.wantBy("wait", soon, "b", "d")
			p.wantBy("wait", soon.Add(-time.Millisecond), "d")
			p.wantBy("wait", late, "a", "b", "d")
			p.wantBy("wait", first, "d")
			ok(p.store.Append(p.ctx, l, turn(1), relabel(label("wait", late), label("other", first))))
			p.wantBy("wait", soon, "d")
			p.wantBy("wait", late, "a", "b", "d")
			p.append(l, turn(2))
			p.wantBy("wait", late, "a", "b", "d")
			ok(p.store.Append(p.ctx, l, turn(3), relabel(label("wait", never))))
			p.wantBy("wait", late, "a", "d")
			p.wantLabeled("wait", "a", "b", "c", "d")
			p.wantBy("other", late)
		},
	},
	{
		name: "labels-milliseconds",
		rule: "a store keeps At in milliseconds, wherever the clock is, and cuts By alike",
		check: func(p *probe) {
			east := time.FixedZone("east", 5*3600)
			p.labeled("a", label("wait", soon.Add(999_999).In(east)))
			p.wantBy("wait", soon, "a")
			p.wantBy("wait", soon.Add(1).In(east), "a")
			p.wantBy("wait", soon.Add(-1))
		},
	},
	{
		name: "labels-page",
		rule: "Label and By go with Session, Prefix, After and Limit, in byte order",
		check: func(p *probe) {
			ids := []string{"b", "a", "ab", "Z", "é", "😀", "~"}
			for i, id := range ids { // the times have another order than the names
				p.labeled(id, label("wait", soon.Add(-time.Duration(i)*time.Second)), label("all", never))
			}
			p.labeled("aa", label("all", soon))
			p.labeled("later", label("wait", late))
			slices.Sort(ids)
			for _, q := range []checkpoint.SessionQuery{{Label: "wait", By: soon}, {Label: "wait", By: late}} {
				if q.By.Equal(late) {
					ids = append(ids, "later")
					slices.Sort(ids)
				}
				p.wantSessions(q, ids...)
				p.wantPages(q, ids)
			}
			p.wantPages(checkpoint.SessionQuery{Label: "wait"}, ids)
			for _, by := range []time.Time{never, late} {
				p.wantSessions(checkpoint.SessionQuery{Label: "wait", By: by, Prefix: "a"}, "a", "ab")
				p.wantSessions(checkpoint.SessionQuery{Label: "wait", By: by, Prefix: "a", After: "a"}, "ab")
				p.wantSessions(checkpoint.SessionQuery{Label: "wait", By: by, Session: "ab"}, "ab")
				p.wantSessions(checkpoint.SessionQuery{Label: "wait", By: by, Session: "aa"})
				p.wantSessions(checkpoint.SessionQuery{Label: "wait", By: by, Session: "nobody"})
			}
		},
	},
	{
		name: "labels-owing",
		rule: "Label and By go with Owing, Due and HeldBack",
		check: func(p *probe) {
			for i, id := range []string{"held", "idle", "owing"} {
				o := relabel(label("wait", soon))
				o.Owes = i != 1
				l := p.claim(id).Lease
				ok(p.store.Append(p.ctx, l, turn(0), o))
				if i == 0 {
					ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Retry: time.Hour}))
				}
			}
			l := p.claim("other").Lease
			ok(p.store.Append(p.ctx, l, turn(0), checkpoint.AppendOptions{Owes: true}))
			for _, by := range []time.Time{never, soon} {
				q := checkpoint.SessionQuery{Label: "wait", By: by, Owing: true}
				p.wantSessions(q, "held", "owing")
				back := q
				back.HeldBack = time.Minute
				p.wantSessions(back, "held")
				q.Due = true
				p.wantSessions(q, "owing")
				q.Session = "held"
				p.wantSessions(q)
			}
			p.wantBy("wait", soon.Add(-time.Second))
		},
	},
	{
		name: "labels-refused",
		rule: "an Append that appends nothing changes no label",
		check: func(p *probe) {
			old := p.labeled("a", label("wait", soon))
			l := p.steal("a").Lease
			other := relabel(label("other", soon))
			want(p.store.Append(p.ctx, old, turn(1), other), lock.ErrFenced)
			want(p.store.Append(p.ctx, l, turn(2), other), checkpoint.ErrConflict)
			ok(p.store.Append(p.ctx, l, turn(0), other)) // a repeat
			fresh := other
			fresh.Fresh = true
			want(p.store.Append(p.ctx, l, turn(0), fresh), checkpoint.ErrConflict)
			want(p.store.Append(p.ctx, p.lost("nobody"), turn(0), other), lock.ErrFenced)
			p.wantLabeled("wait", "a")
			p.wantBy("wait", soon, "a")
			p.wantLabeled("other")
			p.wantBy("other", late)
			ok(p.store.Append(p.ctx, l, turn(1), other))
			p.wantLabeled("wait")
			p.wantLabeled("other", "a")
		},
	},
	{
		name: "labels-deleted",
		rule: "Delete removes the labels: a session that begins anew has none",
		check: func(p *probe) {
			l := p.labeled("a", label("wait", soon))
			p.labeled("b", label("wait", soon))
			ok(p.store.Delete(p.ctx, l))
			p.wantLabeled("wait", "b")
			p.wantBy("wait", soon, "b")
			p.settled("a", 1)
			p.wantLabeled("wait", "b")
			p.wantBy("wait", soon, "b")
			p.bury("a")
			p.labeled("a", label("wait", soon))
			p.wantBy("wait", soon, "a", "b")
		},
	},
	{
		name: "labels-apart",
		rule: "the labels of one orchestrator are not those of another",
		check: func(p *probe) {
			p.labeled("a", label("wait", soon))
			other := checkpoint.Key{Orchestrator: bot + "2", Session: "b"}
			c, err := p.store.Claim(p.ctx, other, request(time.Hour))
			ok(err)
			ok(p.store.Append(p.ctx, c.Lease, turn(0), relabel(label("wait", soon))))
			p.wantLabeled("wait", "a")
			p.wantBy("wait", soon, "a")
			ok(p.store.Delete(p.ctx, c.Lease))
			p.wantLabeled("wait", "a")
		},
	},
	{
		name: "labels-invalid",
		rule: "labels that no store takes, and queries by them, are ErrInvalid, and change nothing",
		check: func(p *probe) {
			l := p.labeled("a", label("wait", soon))
			many := make([]checkpoint.Label, checkpoint.MostLabels+1)
			for i := range many {
				many[i].Name = fmt.Sprint(i)
			}
			for _, o := range []checkpoint.AppendOptions{
				relabel(label("", never)), relabel(label("a\x00", never)), relabel(label("\xff", never)),
				relabel(label(strings.Repeat("x", 257), never)), relabel(label("a", never), label("a", soon)),
				relabel(label("a", soon), label("a", soon)),
				relabel(label("a", first.Add(-time.Millisecond))), relabel(label("a", late.Add(1))), relabel(many...),
				{Labels: []checkpoint.Label{{Name: "a"}}},
			} {
				want(p.store.Append(p.ctx, l, turn(1), o), checkpoint.ErrInvalid)
			}
			for _, q := range []checkpoint.SessionQuery{
				{Label: "a\x00"},
				{Label: strings.Repeat("x", 257)},
				{By: soon},
				{Label: "a", By: late.Add(1)},
				{Label: "a", By: first.Add(-1)},
			} {
				q.Orchestrator = bot
				var refused error
				for _, err := range p.store.Sessions(p.ctx, q) {
					refused = err
				}
				want(refused, checkpoint.ErrInvalid)
			}
			p.wantLabeled("wait", "a")
			p.wantTurns("a", 0)
		},
	},
}

func label(name string, at time.Time) checkpoint.Label { return checkpoint.Label{Name: name, At: at} }

func relabel(labels ...checkpoint.Label) checkpoint.AppendOptions {
	return checkpoint.AppendOptions{Relabel: true, Labels: labels}
}

// labeled claims a session, settles a turn with labels, and gives the session back. It returns a lease that was granted
// after that.
func (p *probe) labeled(session string, labels ...checkpoint.Label) checkpoint.Lease {
	o := relabel(labels...)
	o.Release = true
	ok(p.store.Append(p.ctx, p.claim(session).Lease, turn(0), o))
	return p.claimAs(session, request(time.Hour)).Lease
}

// lost returns a lease of a session that was deleted.
func (p *probe) lost(session string) checkpoint.Lease {
	l := p.claim(session).Lease
	ok(p.store.Delete(p.ctx, l))
	return l
}

func (p *probe) wantLabeled(name string, want ...string) {
	p.wantSessions(checkpoint.SessionQuery{Label: name}, want...)
}

func (p *probe) wantBy(name string, by time.Time, want ...string) {
	p.wantSessions(checkpoint.SessionQuery{Label: name, By: by}, want...)
}

// wantPages reads the sessions of q in pages of three.
func (p *probe) wantPages(q checkpoint.SessionQuery, want []string) {
	var got []string
	q.Limit = 3
	for page := p.sessions(q); len(page) > 0; page = p.sessions(q) {
		if got = append(got, page...); len(page) > q.Limit || len(page) < q.Limit && len(got) < len(want) {
			fail("a page of %d", len(page))
		}
		q.After = page[len(page)-1]
	}
	if !slices.Equal(got, want) {
		fail("pages of %+v hold %q, want %q", q, got, want)
	}
}
