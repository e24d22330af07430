package workflowtest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	// crowd is how many callers start runs with one key at once.
	crowd = 50

	// races is how often a clause repeats what a few callers do at once.
	races = 25
)

// A call is one of several at once.
type call struct {
	verdict error
	receipt workflow.Receipt
	claimed []workflow.Claimed
	err     error
}

// writes returns what writes an entry.
func (p *probe) writes(c *call, e workflow.Entry) func() {
	return func() {
		var all []error
		if all, c.err = p.store.Write(p.ctx, []workflow.Entry{e}); c.err == nil {
			c.verdict = all[0]
		}
	}
}

// sends returns what sends a message.
func (p *probe) sends(c *call, m workflow.Message) func() {
	return func() {
		var all []workflow.Receipt
		if all, c.err = p.store.Send(p.ctx, []workflow.Message{m}); c.err == nil {
			c.receipt = all[0]
		}
	}
}

// claims returns what claims runs.
func (p *probe) claims(c *call, q workflow.ClaimRequest) func() {
	return func() { c.claimed, _, c.err = p.store.Claim(p.ctx, q) }
}

// together runs calls at once, each of which must have an answer.
func together(calls []*call, acts ...func()) {
	suite.Together(acts...)
	for _, c := range calls {
		ok(c.err)
	}
}

var raceClauses = []clause{
	{
		name: "race-start",
		rule: "of many starts with one key at once one adds a run, and all return it",
		check: func(p *probe, s workflow.Store) {
			for i := range 3 {
				var acts []func()
				started, errs := make([]workflow.Started, crowd), make([]error, crowd)
				for c := range crowd {
					n := starting(fmt.Sprint("r", i, "-", c))
					n.Key = fmt.Sprint("key", i)
					acts = append(acts, func() {
						all, err := s.Start(p.ctx, []workflow.NewRun{n})
						if errs[c] = err; err == nil {
							started[c] = all[0]
						}
					})
				}
				suite.Together(acts...)
				ok(errors.Join(errs...))
				added := 0
				for _, st := range started {
					if st.ID != started[0].ID {
						fail("one key has the runs %q and %q", st.ID, started[0].ID)
					}
					if st.New {
						added++
					}
				}
				if all := p.runs(workflow.Query{}); added != 1 || len(all) != i+1 {
					fail("%d starts with one key add a run, and there are %d, want 1 and %d", added, len(all), i+1)
				}
			}
		},
	},
	{
		name: "race-claim",
		rule: "of many claims at once each gets other runs, and together all",
		check: func(p *probe, _ workflow.Store) {
			for i := range 3 {
				var batch []workflow.NewRun
				for n := range 40 {
					batch = append(batch, starting(fmt.Sprint("r", i, "-", n)))
				}
				p.start(batch...)
				var mu sync.Mutex
				owners := make(map[string]string)
				var acts []func()
				errs := make([]error, 8)
				for c := range errs {
					acts = append(acts, func() {
						for range 40 {
							q := plain(fmt.Sprint("p", c))
							q.Limit = 3
							all, _, err := p.store.Claim(p.ctx, q)
							mu.Lock()
							for _, r := range all {
								if owners[r.ID] != "" {
									err = fmt.Errorf("%s and %s own %q", owners[r.ID], q.Process, r.ID)
								}
								owners[r.ID] = q.Process
							}
							mu.Unlock()
							if errs[c] = err; err != nil || len(all) == 0 {
								return
							}
						}
					})
				}
				suite.Together(acts...)
				ok(errors.Join(errs...))
				for rest := range 8 { // a run that another was claiming was skipped
					all, _ := p.claim(many(fmt.Sprint("rest", rest)))
					for _, c := range all {
						owners[c.ID] = c.Owner
					}
				}
				if len(owners) != len(batch) {
					fail("%d of %d runs are claimed", len(owners), len(batch))
				}
			}
		},
	},
	{
		name: "race-take",
		rule: "of two claims of a run from its owner, the later owner fences off the earlier one, and both the first",
		check: func(p *probe, _ workflow.Store) {
			for i := range races {
				id := fmt.Sprint("r", i)
				n := owned(id)
				n.Owner = id
				p.start(n)
				var one, two, first call
				together([]*call{&one, &two, &first}, p.claims(&one, from("b", id)), p.claims(&two, from("c", id)),
					p.writes(&first, entry(id, n.Fence, workflow.Stay, done("s"))))
				got := append(one.claimed, two.claimed...)
				if len(got) > 1 {
					fail("two claims of one run get %d", len(got))
				}
				if len(got) == 0 { // both have met the entry
					got = append(got, p.claimed(id, from("b", id)))
				}
				c := got[0]
				if first.verdict == nil {
					p.wantSteps(id, "s done")
				} else {
					want(first.verdict, fenced)
					p.wantSteps(id)
				}
				p.write(entry(id, c.Fence, workflow.Stay, done("t")))
				want(p.verdict(entry(id, n.Fence, workflow.Stay, done("late"))), fenced)
			}
		},
	},
	{
		name: "race-park",
		rule: "of a signal and an entry that parks the run to wait for it, either the signal is consumed, or the " +
			"entry is ErrMail",
		check: func(p *probe, _ workflow.Store) {
			for i := range races {
				id := fmt.Sprint("r", i)
				e := waiting(id, p.begins(id), "e")
				e.Mail = 0
				var park, sig call
				together([]*call{&park, &sig}, p.writes(&park, e), p.sends(&sig, signal(id, "e", `1`)))
				switch {
				case park.verdict == nil && sig.receipt == workflow.Consumed:
					p.claimed(id, plain("b"))
				case errors.Is(park.verdict, workflow.ErrMail) && sig.receipt == workflow.Kept:
				default:
					fail("the entry is %v, and the signal %s", park.verdict, sig.receipt)
				}
				p.wantMail(id, "of e")
			}
		},
	},
	{
		name: "race-timeout",
		rule: "of a signal and the timeout of a wait that ends the run one wins: the entry is ErrMail, or the run is " +
			"over",
		check: func(p *probe, _ workflow.Store) {
			for i := range races {
				id := fmt.Sprint("r", i)
				e := waiting(id, p.begins(id), "e")
				e.After = 1
				p.write(e)
				var sig, out call
				together([]*call{&sig, &out}, p.sends(&sig, signal(id, "e", `1`)), func() {
					if p.claims(&out, plain("b"))(); out.err != nil || len(out.claimed) != 1 {
						return
					}
					timeout := entry(id, out.claimed[0].Fence, workflow.End, workflow.Step{
						Name: "w", Kind: workflow.KindWait, Outcome: workflow.TimedOut,
					})
					timeout.Mail = out.claimed[0].Mail
					p.writes(&out, timeout)()
				})
				p.wantTimeout(id, &sig, &out)
			}
		},
	},
	{
		name: "race-end",
		rule: "of a signal and the end of its run, either the signal is in the mailbox, or it is told that the run " +
			"is over",
		check: func(p *probe, _ workflow.Store) {
			for i := range races {
				id := fmt.Sprint("r", i)
				f := p.begins(id)
				var end, sig call
				together([]*call{&end, &sig}, p.writes(&end, entry(id, f, workflow.End)),
					p.sends(&sig, signal(id, "e", `1`)))
				switch ok(end.verdict); sig.receipt {
				case workflow.Over:
					p.wantMail(id)
				case workflow.Kept:
					p.wantMail(id, "of e")
				default:
					fail("a signal to a run that ends is %s", sig.receipt)
				}
			}
		},
	},
	{
		name: "race-cancel",
		rule: "of the end of a run and its cancellation one wins, and the other is told so",
		check: func(p *probe, _ workflow.Store) {
			for i := range races {
				id := fmt.Sprint("r", i)
				f := p.begins(id)
				var end, stop call
				together([]*call{&end, &stop}, p.writes(&end, entry(id, f, workflow.End, done("s"))),
					p.sends(&stop, workflow.Message{Run: id, Action: workflow.Cancel}))
				status := p.run(id).Status
				switch {
				case end.verdict == nil && stop.receipt == workflow.Over && status == workflow.Completed:
					p.wantSteps(id, "s done")
				case errors.Is(end.verdict, workflow.ErrOver) && stop.receipt == workflow.Applied &&
					status == workflow.Cancelled:
					p.wantSteps(id)
				default:
					fail("the end is %v, the cancellation %s, and the run %s", end.verdict, stop.receipt, status)
				}
			}
		},
	},
	{
		name: "race-signals",
		rule: "of many signals at once one is consumed, each counts once, and each is in the mailbox",
		check: func(p *probe, _ workflow.Store) {
			for i := range races / 5 {
				id := fmt.Sprint("r", i)
				p.write(waiting(id, p.begins(id), "e"))
				calls, acts := make([]*call, 12), make([]func(), 12)
				for n := range calls {
					calls[n] = new(call)
					m := signal(id, "e", `1`)
					m.ID = fmt.Sprint("s", n/2)
					acts[n] = p.sends(calls[n], m)
				}
				together(calls, acts...)
				consumed := 0
				for _, c := range calls {
					if c.receipt == workflow.Consumed {
						consumed++
					}
				}
				_, mail := p.steps(id)
				if c := p.claimed(id, plain("b")); consumed != 1 || c.Mail != 6 || len(mail) != 6 {
					fail("of 6 signals, each twice, %d are consumed, %d count and %d lie in the mailbox",
						consumed, c.Mail, len(mail))
				}
			}
		},
	},
	{
		name: "race-groups",
		rule: "groups of entries and of messages that meet do not wait for each other in a circle",
		check: func(p *probe, s workflow.Store) {
			var runs []workflow.NewRun
			for i := range 8 {
				runs = append(runs, owned(fmt.Sprint("r", i)))
			}
			p.start(runs...)
			errs := make([]error, 6)
			var acts []func()
			for c := range errs {
				acts = append(acts, func() {
					for i := range races / 2 {
						var group []workflow.Entry
						var messages []workflow.Message
						for _, n := range runs {
							group = append(group, entry(n.ID, n.Fence, workflow.Stay, done(fmt.Sprint("s", c, "-", i))))
							messages = append(messages, signal(n.ID, fmt.Sprint("e", c, "-", i), `1`))
						}
						if c%2 == 1 {
							slices.Reverse(group)
							slices.Reverse(messages)
						}
						verdicts, err := s.Write(p.ctx, group)
						_, sent := s.Send(p.ctx, messages)
						errs[c] = errors.Join(errs[c], errors.Join(verdicts...), err, sent)
					}
				})
			}
			suite.Together(acts...)
			ok(errors.Join(errs...))
			for _, n := range runs {
				journal, mail := p.steps(n.ID)
				if most := len(errs) * (races / 2); len(journal) != most || len(mail) != most {
					fail("a journal has %d rows, and a mailbox %d signals, want %d", len(journal), len(mail), most)
				}
			}
		},
	},
}

// wantTimeout checks what has become of a signal, and of a timeout that its owner wrote if the claim got the run.
func (p *probe) wantTimeout(id string, sig, timeout *call) {
	switch {
	case len(timeout.claimed) == 0: // the signal was changing the run
		p.claimed(id, plain("b"))
		p.wantMail(id, "of e")
	case timeout.verdict != nil:
		want(timeout.verdict, workflow.ErrMail)
		p.wantSteps(id)
		p.wantMail(id, "of e")
	case timeout.claimed[0].Mail == 1: // the owner has seen the signal
		p.wantMail(id, "of e")
	case sig.receipt != workflow.Over:
		fail("the timeout has ended the run, and the signal is %s", sig.receipt)
	default:
		p.wantSteps(id, "w timeout")
		p.wantMail(id)
	}
}
