package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
)

// published returns the ids of the subscriptions that a topic fits.
func published(t *testing.T, m *workflow.Memory, topic, id string) (ids []string) {
	t.Helper()
	started, err := workflow.Publish(t.Context(), m, nil, topic, id, 1)
	if err != nil {
		t.Fatal(topic, err)
	}
	c := workflow.NewClient(m)
	for _, s := range started {
		r, err := c.Get(t.Context(), s.ID)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, strings.Split(r.Key, "/")[1])
	}
	return ids
}

func TestPatterns(t *testing.T) {
	for pattern, topics := range map[string]struct{ fit, not string }{
		"a":         {"a", "b A a.a"},
		"a.b":       {"a.b", "a b a.b.c a.c"},
		"*":         {"a b", "a.b"},
		"*.*":       {"a.b b.b", "a a.b.c"},
		"a.*":       {"a.a a.b", "a a.b.c b.a"},
		"*.b":       {"a.b b.b", "b a.b.b a.a"},
		"a.*.c":     {"a.b.c a.c.c", "a.c a.b.b.c"},
		"#":         {"a a.b a.b.c", ""},
		"a.#":       {"a a.b a.b.c", "b b.a aa"},
		"#.c":       {"c a.c a.b.c c.c", "a c.a cc"},
		"a.#.c":     {"a.c a.b.c a.b.b.c a.c.c", "a c a.b a.c.b"},
		"#.b.#":     {"b a.b b.a a.b.a a.b.b.a", "a a.a bb"},
		"#.#":       {"a a.b", ""},
		"*.#":       {"a a.b a.b.c", ""},
		"#.*.#":     {"a a.b", ""},
		"#.*.*":     {"a.b a.b.c", "a"},
		"a.#.b.*":   {"a.b.c a.b.b.c a.c.b.c", "a.b a.c.c b.b.c"},
		"#.a.#.a.#": {"a.a a.b.a b.a.a.b a.a.a", "a a.b b.a.b"},
		"-_09.Az":   {"-_09.Az", "-_09.az"},
	} {
		m := new(workflow.Memory)
		s := workflow.Subscription{ID: "s", Pattern: pattern, Workflow: "w"}
		if err := m.Subscribe(t.Context(), s); err != nil {
			t.Fatal(pattern, err)
		}
		for _, topic := range strings.Fields(topics.fit) {
			if n := len(published(t, m, topic, "in-"+topic)); n != 1 {
				t.Errorf("%q does not fit %q", topic, pattern)
			}
		}
		for _, topic := range strings.Fields(topics.not) {
			if n := len(published(t, m, topic, "in-"+topic)); n != 0 {
				t.Errorf("%q fits %q", topic, pattern)
			}
		}
	}
}

// A pattern of many # is decided at once.
func TestPatternsAreQuick(t *testing.T) {
	m := new(workflow.Memory)
	s := workflow.Subscription{ID: "s", Pattern: strings.Repeat("#.a.", 15) + "b", Workflow: "w"}
	if err := m.Subscribe(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if n := len(published(t, m, strings.Repeat("a.", 31)+"c", "1")); n != 0 {
		t.Error("it fits")
	}
}

func subscriptions() []bound {
	sub := func(change func(*workflow.Subscription)) error {
		s := workflow.Subscription{ID: "s", Pattern: "a"}
		change(&s)
		return s.Validate()
	}
	with := func(pattern string) error {
		return sub(func(s *workflow.Subscription) { s.Pattern, s.Workflow = pattern, "w" })
	}
	to := func(url string) error { return sub(func(s *workflow.Subscription) { s.URL = url }) }
	return []bound{
		{"no target", sub(func(*workflow.Subscription) {}), false},
		{"two targets", sub(func(s *workflow.Subscription) { s.Workflow, s.Session = "w", "s" }), false},
		{"three targets", sub(func(s *workflow.Subscription) { s.Workflow, s.Session, s.URL = "w", "s", "http://a" }), false},
		{"a URL and a session", sub(func(s *workflow.Subscription) { s.URL, s.Session = "http://a", "s" }), false},
		{"a session of 512", sub(func(s *workflow.Subscription) { s.Session = of(512) }), true},
		{"a session of 513", sub(func(s *workflow.Subscription) { s.Session = of(513) }), false},
		{"no workflow", sub(func(s *workflow.Subscription) { s.Workflow = "A" }), false},
		{"no id", sub(func(s *workflow.Subscription) { s.ID, s.Workflow = "", "w" }), false},
		{"an id of 64", sub(func(s *workflow.Subscription) { s.ID, s.Workflow = of(64), "w" }), true},
		{"an id of 65", sub(func(s *workflow.Subscription) { s.ID, s.Workflow = of(65), "w" }), false},
		{"an id with a slash", sub(func(s *workflow.Subscription) { s.ID, s.Workflow = "a/b", "w" }), false},
		{"no pattern", with(""), false},
		{"an empty segment", with("a..b"), false},
		{"a dot behind", with("a."), false},
		{"half a segment", with("a*"), false},
		{"two in one segment", with("**"), false},
		{"a pattern of 255", with(of(255)), true},
		{"a pattern of 256", with(of(256)), false},
		{"32 segments", with(strings.Repeat("a.", 31) + "a"), true},
		{"33 segments", with(strings.Repeat("a.", 32) + "a"), false},
		{"a URL", to("https://a.example:8443/p?q=1"), true},
		{"an address", to("http://[::1]/"), true},
		{"a path", to("/hook"), false},
		{"a URL without a host", to("http:///hook"), false},
		{"a port alone", to("http://:80"), false},
		{"another scheme", to("ftp://a"), false},
		{"an opaque URL", to("http:a"), false},
		{"a password", to("https://u:p@a"), false},
		{"a fragment", to("https://a/#b"), false},
		{"a URL of 2,048", to("https://a/" + of(2038)), true},
		{"a URL of 2,049", to("https://a/" + of(2039)), false},
		{"a URL with NUL", to("https://a/\x00"), false},
		{"no URL", to("http://%"), false},
		{"a topic", workflow.ValidatePublish("a.b", "i", nil), true},
		{"a topic with a star", workflow.ValidatePublish("a.*", "i", nil), false},
		{"a topic with a hash", workflow.ValidatePublish("#", "i", nil), false},
		{"no topic", workflow.ValidatePublish("", "i", nil), false},
		{"no message id", workflow.ValidatePublish("a", "", nil), false},
		{"a message id with a line", workflow.ValidatePublish("a", "a\n", nil), false},
		{"a message id with a space", workflow.ValidatePublish("a", "a b", nil), false},
		{"another alphabet in a message id", workflow.ValidatePublish("a", "é", nil), false},
		{"a message id of 256", workflow.ValidatePublish("a", of(256), nil), true},
		{"a message id of 257", workflow.ValidatePublish("a", of(257), nil), false},
		{"a large message", workflow.ValidatePublish("a", "i", large(workflow.MaxMessage)), true},
		{"too large a message", workflow.ValidatePublish("a", "i", large(workflow.MaxMessage+1)), false},
	}
}

// What no store takes is refused before a subscription is read, and nothing is started.
func TestPublishRefused(t *testing.T) {
	m := new(workflow.Memory)
	if err := m.Subscribe(t.Context(), workflow.Subscription{ID: "s", Pattern: "#", Workflow: "w"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		topic, id string
		message   any
	}{
		{"a.*", "1", 1}, {"", "1", 1}, {"a", "", 1}, {"a", "1", make(chan int)}, {"a", "1", "\x00"},
	} {
		_, err := workflow.Publish(t.Context(), m, nil, p.topic, p.id, p.message)
		if !errors.Is(err, workflow.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for r, err := range m.Runs(t.Context(), workflow.Query{}) {
		t.Error(r, err)
	}
}

// A message of the greatest size fits each kind of target, with the longest names.
func TestLargestMessage(t *testing.T) {
	m := new(workflow.Memory)
	for i, s := range []workflow.Subscription{
		{Workflow: "w"}, {URL: "https://a/" + strings.Repeat("&", 2038)}, {Session: strings.Repeat("\x01", 512)},
	} {
		s.ID, s.Pattern = fmt.Sprint(strings.Repeat("x", 63), i), "#"
		if err := m.Subscribe(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	id := strings.Repeat("&", 256)
	started, err := workflow.Publish(t.Context(), m, nil, of(255), id, large(workflow.MaxMessage))
	if err != nil || len(started) != 3 {
		t.Error(len(started), err)
	}
}

// One publish reaches a workflow, a URL and a session, once each.
func TestPublish(t *testing.T) {
	ctx, m := t.Context(), new(workflow.Memory)
	for _, s := range []workflow.Subscription{
		{ID: "c", Pattern: "user.*", Session: "support"},
		{ID: "a", Pattern: "user.#", Workflow: "onboard"},
		{ID: "b", Pattern: "user.signup", URL: "https://crm.example/hook"},
		{ID: "d", Pattern: "order.*", Workflow: "ship"},
	} {
		if err := m.Subscribe(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(id string, message any) ([]workflow.Started, error) {
		return workflow.Publish(ctx, m, nil, "user.signup", id, message)
	}
	first, err := publish("m1", map[string]int{"user": 42})
	if err != nil || len(first) != 3 {
		t.Fatal(first, err)
	}
	for i, want := range []struct{ workflow, input string }{
		{"onboard", `{"user":42}`},
		{workflow.WebhookWorkflow, `{"subscription":"b","url":"https://crm.example/hook",` +
			`"topic":"user.signup","id":"m1","message":{"user":42}}`},
		{workflow.SessionWorkflow, `{"subscription":"c","session":"support","topic":"user.signup","id":"m1",` +
			`"message":{"user":42}}`},
	} {
		r, err := workflow.NewClient(m).Get(ctx, first[i].ID)
		if err != nil || !first[i].New || r.Workflow != want.workflow || string(r.Input) != want.input {
			t.Errorf("%+v %s, %v", r, r.Input, err)
		}
	}
	again, err := publish("m1", json.RawMessage(`{"user": 42.0}`))
	if err != nil || len(again) != 3 || slices.ContainsFunc(again, func(s workflow.Started) bool { return s.New }) {
		t.Errorf("the same message again: %+v, %v", again, err)
	}
	if _, err := publish("m1", 43); !errors.Is(err, workflow.ErrKeyReused) {
		t.Errorf("another message with the id: %v", err)
	}
	// The publisher sees no difference once a subscriber has gone.
	for range 2 {
		if err := m.Unsubscribe(ctx, "b"); err != nil {
			t.Fatal(err)
		}
	}
	if second, err := publish("m2", 43); err != nil || len(second) != 2 {
		t.Error(second, err)
	}
	if none, err := workflow.Publish(ctx, m, nil, "invoice", "m3", 1); err != nil || len(none) != 0 {
		t.Error(none, err)
	}
}

// A bare is a Front without subscriptions.
type bare struct{ workflow.Front }

func TestPublishElsewhere(t *testing.T) {
	ctx, m, other := t.Context(), new(workflow.Memory), new(workflow.Memory)
	if err := m.Subscribe(ctx, workflow.Subscription{ID: "s", Pattern: "a", Workflow: "w"}); err != nil {
		t.Fatal(err)
	}
	if started, err := workflow.Publish(ctx, bare{other}, m, "a", "1", 1); err != nil || len(started) != 1 {
		t.Error(started, err)
	}
	if _, err := workflow.Publish(ctx, bare{other}, nil, "a", "1", 1); !errors.Is(err, workflow.ErrInvalid) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := workflow.Publish(ended, m, nil, "a", "2", 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
