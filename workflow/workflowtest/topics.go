package workflowtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/workflow"
)

var topicClauses = []clause{
	{
		name: "subscribe",
		rule: "a subscription is there as it was made, in the byte order of the ids, until Unsubscribe removes it",
		check: func(p *probe, s workflow.Store) {
			p.wantSubscribed()
			all := []workflow.Subscription{
				{ID: "-", Pattern: "a.*.#", Workflow: flow},
				{ID: ".b", Pattern: "#", URL: "https://a.example/hook?q=é"},
				{ID: "10", Pattern: "a", Session: "of Zoë's\n"},
				{ID: "9", Pattern: "a", Workflow: flow},
				{ID: "B", Pattern: "a", Workflow: flow},
				{ID: "_", Pattern: "A-z_0", Workflow: "other"},
				{ID: "a", Pattern: "a", Workflow: flow},
			}
			for _, i := range []int{4, 0, 6, 2, 5, 1, 3} {
				ok(s.Subscribe(p.ctx, all[i]))
			}
			p.wantSubscribed(all...)
			for range 2 {
				ok(s.Unsubscribe(p.ctx, "B"))
				p.wantSubscribed(slices.Delete(slices.Clone(all), 4, 5)...)
			}
			ok(s.Unsubscribe(p.ctx, "b"))
			ok(s.Subscribe(p.ctx, all[4]))
			p.wantSubscribed(all...)
		},
	},
	{
		name: "subscribe-again",
		rule: "a known subscription changes nothing, and with other fields it is ErrKeyReused",
		check: func(p *probe, s workflow.Store) {
			first := workflow.Subscription{ID: "s", Pattern: "a", Workflow: flow}
			ok(s.Subscribe(p.ctx, first))
			for _, other := range []workflow.Subscription{
				{ID: "s", Pattern: "b", Workflow: flow},
				{ID: "s", Pattern: "a", Workflow: "other"},
				{ID: "s", Pattern: "a", Session: flow},
				{ID: "s", Pattern: "a", URL: "http://a.example"},
			} {
				want(s.Subscribe(p.ctx, other), workflow.ErrKeyReused)
				ok(s.Subscribe(p.ctx, first))
				p.wantSubscribed(first)
			}
			ok(s.Unsubscribe(p.ctx, "s"))
			first.Pattern = "b"
			ok(s.Subscribe(p.ctx, first))
			p.wantSubscribed(first)
		},
	},
	{
		name: "subscribe-most",
		rule: "a store has MaxSubscriptions at most: it refuses another one with ErrInvalid, and takes a known one",
		check: func(p *probe, s workflow.Store) {
			at := func(i int) workflow.Subscription {
				return workflow.Subscription{ID: fmt.Sprint(10_000 + i), Pattern: "a", Workflow: flow}
			}
			for i := range workflow.MaxSubscriptions {
				ok(s.Subscribe(p.ctx, at(i)))
			}
			want(s.Subscribe(p.ctx, at(workflow.MaxSubscriptions)), workflow.ErrInvalid)
			ok(s.Subscribe(p.ctx, at(7)))
			all, err := s.Subscriptions(p.ctx)
			if ok(err); len(all) != workflow.MaxSubscriptions {
				fail("there are %d subscriptions, want %d", len(all), workflow.MaxSubscriptions)
			}
			ok(s.Unsubscribe(p.ctx, at(7).ID))
			ok(s.Subscribe(p.ctx, at(workflow.MaxSubscriptions)))
		},
	},
	{
		name: "subscribe-refused",
		rule: "what is no subscription is refused with ErrInvalid, and nothing is stored",
		check: func(p *probe, s workflow.Store) {
			for what, change := range badSubscriptions {
				bad := workflow.Subscription{ID: "s", Pattern: "a", Workflow: flow}
				change(&bad)
				if err := s.Subscribe(p.ctx, bad); err == nil {
					fail("a subscription with %s is taken", what)
				} else {
					want(err, workflow.ErrInvalid)
				}
			}
			p.wantSubscribed()
			want(s.Unsubscribe(p.ctx, ""), workflow.ErrInvalid)
			want(s.Unsubscribe(p.ctx, "a/b"), workflow.ErrInvalid)
		},
	},
}

var badSubscriptions = func() map[string]func(*workflow.Subscription) {
	type sub = workflow.Subscription
	all := map[string]func(*sub){
		"no target":                  func(s *sub) { s.Workflow = "" },
		"a workflow and a URL":       func(s *sub) { s.URL = "http://a.example" },
		"a workflow and a session":   func(s *sub) { s.Session = "s" },
		"a long id":                  func(s *sub) { s.ID = strings.Repeat("x", 65) },
		"a slash in its id":          func(s *sub) { s.ID = "a/b" },
		"no id":                      func(s *sub) { s.ID = "" },
		"no pattern":                 func(s *sub) { s.Pattern = "" },
		"an empty segment":           func(s *sub) { s.Pattern = "a..b" },
		"a star beside letters":      func(s *sub) { s.Pattern = "a*" },
		"a long pattern":             func(s *sub) { s.Pattern = strings.Repeat("x", workflow.MaxTopic+1) },
		"a space in its pattern":     func(s *sub) { s.Pattern = "a b" },
		"a URL of another scheme":    func(s *sub) { s.Workflow, s.URL = "", "file:///etc/passwd" },
		"a URL without a host":       func(s *sub) { s.Workflow, s.URL = "", "http:///a" },
		"a URL with a password":      func(s *sub) { s.Workflow, s.URL = "", "http://u:p@a.example" },
		"a URL that is too long":     func(s *sub) { s.Workflow, s.URL = "", "http://a/"+strings.Repeat("x", 2048) },
		"a session that is too long": func(s *sub) { s.Workflow, s.Session = "", strings.Repeat("x", 513) },
	}
	into(all, without(badNames), "workflow", func(s *sub, name string) { s.Workflow = name })
	return all
}()

func (p *probe) wantSubscribed(all ...workflow.Subscription) {
	got, err := p.store.Subscriptions(p.ctx)
	ok(err)
	if !slices.Equal(got, all) {
		fail("the subscriptions are %+v, want %+v", got, all)
	}
}
