package agenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/transcript"
)

// Seen is Custom with a map.
type Seen struct{ Seen map[string]bool }

// Of many creators one succeeds. Updates at once are all kept. An update of an old version is refused.
func createAndUpdate(t *testing.T, st agent.Stores) {
	d := agent.Definition[Seen]{Model: Answers()}
	all := []*agent.Agent[Seen]{New(t, d, st), New(t, d, st)}
	var created, exists atomic.Int32
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			l := agent.Labels{User: fmt.Sprint(i), Mode: "standard"}
			switch err := all[i%2].Create(t.Context(), "s", Seen{map[string]bool{}}, l); {
			case err == nil:
				created.Add(1)
			case errors.Is(err, agent.ErrExists):
				exists.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if created.Load() != 1 || exists.Load() != 39 {
		t.Fatalf("%d have created it, %d not", created.Load(), exists.Load())
	}
	for i := range 20 {
		group.Go(func() {
			_, err := all[i%2].Update(t.Context(), "s", 0, func(s *agent.State[Seen]) error {
				s.Custom.Seen[fmt.Sprint(i)] = true
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	a := all[0]
	s, version := Get(t, a, "s")
	if len(s.Custom.Seen) != 20 || version != 21 {
		t.Fatalf("version %d: %v", version, s.Custom.Seen)
	}
	fail := func(s *agent.State[Seen]) error { s.Status = agent.Failed; return nil }
	if now, err := a.Update(t.Context(), "s", version-1, fail); !errors.Is(err, agent.ErrStale) || now != version {
		t.Error(now, err)
	}
	if now, err := a.Update(t.Context(), "s", version, fail); err != nil || now != version+1 {
		t.Error(now, err)
	}
	again := func(s *agent.State[Seen]) error { s.Mode = "other"; return nil }
	if _, err := a.Update(t.Context(), "s", 0, again); err == nil {
		t.Error("the mode was set twice")
	}
	active := func(s *agent.State[Seen]) error { s.Status = agent.Active; return nil }
	if _, err := a.Update(t.Context(), "s", 0, active); err == nil {
		t.Error("it is active without a run")
	}
	if s, _ := Get(t, a, "s"); s.Status != agent.Failed || s.Mode != "standard" {
		t.Errorf("%+v", s)
	}
	if _, err := a.Update(t.Context(), "other", 0, fail); !errors.Is(err, agent.ErrUnknown) {
		t.Error(err)
	}
}

type planned struct{ Plan *Plan }

// Twelve turns, each in a process of its own, are twelve versions. Each process goes on with all that was said and with
// what is known, and no turn changes a version before it. The budget counts over all of them.
func versions(t *testing.T, st agent.Stores) {
	created, want := "", ""
	for i := range 12 {
		var a *agent.Agent[planned]
		a = New(t, agent.Definition[planned]{
			MaxCost: 0.115, // of twelve calls
			Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
				if got := Print(r.Said); got != want {
					t.Errorf("the model sees %s, want %s", got, want)
				}
				if s, _, err := a.Get(t.Context(), "s"); i > 0 && (err != nil || s.Status != agent.Active) {
					t.Errorf("%s, %v", s.Status, err)
				}
				return Says(fmt.Sprint("re ", i))
			}),
			Begin: func(_ context.Context, turn *agent.Turn[planned]) error {
				if i == 6 {
					turn.State.Custom.Plan = &Plan{Steps: []string{"a"}}
				}
				return nil
			},
		}, st)
		if _, _, err := a.Get(t.Context(), "s"); (i == 0) != errors.Is(err, agent.ErrUnknown) {
			t.Fatal(err)
		}
		want = strings.TrimPrefix(want+fmt.Sprintf(" | user m %d", i), " | ")
		Say(t, a, "s", fmt.Sprint("m ", i))
		want += fmt.Sprintf(" | assistant re %d", i)
		s, version := Get(t, a, "s")
		if created == "" {
			created = s.Created.String()
		}
		if version != i+1 || s.Created.String() != created || (s.Custom.Plan != nil) != (i >= 6) {
			t.Errorf("version %d: %+v", version, s)
		}
		first, err := a.Bot().Turn(t.Context(), "s", 0)
		if err != nil || len(first.State.Tail) != 2 || first.State.Spent.Cost != 0.01 {
			t.Errorf("version 1 is %+v, %v", first, err)
		}
		if i == 11 {
			want += " | user m 12"
			if o := Say(t, a, "s", "m 12"); o.Reason != agent.Budget {
				t.Errorf("%+v", o)
			}
		}
	}
}

// Update refuses changes that only the agent makes, and an error of its function. Nothing is stored.
func updateRefuses(t *testing.T, st agent.Stores) {
	w := new(Shop)
	a := New(t, w.Definition(), st)
	Say(t, a, "waits", "refund A1")
	Say(t, a, "done", "refund A1")
	if _, err := a.Drop(t.Context(), "done"); err != nil {
		t.Fatal(err)
	}
	type state = *agent.State[None]
	for name, c := range map[string]struct {
		session string
		change  func(state)
		want    error
	}{
		"open":     {"waits", func(s state) { s.Open = nil }, agent.ErrReserved},
		"deep":     {"waits", func(s state) { s.Open[1].Waits[0].Call.Args[2] = 'x' }, agent.ErrReserved},
		"answers":  {"waits", func(s state) { s.Answers = map[string]agent.Answer{"c3": {}} }, agent.ErrReserved},
		"children": {"done", func(s state) { s.Children = map[string]string{"a": "b"} }, agent.ErrReserved},
		"self":     {"done", func(s state) { s.Self = "other" }, agent.ErrReserved},
		"born":     {"done", func(s state) { s.Born += "x" }, agent.ErrReserved},
		"parent":   {"done", func(s state) { s.Parent = "p" }, agent.ErrReserved},
		"root":     {"done", func(s state) { s.Root = "p" }, agent.ErrReserved},
		"spent":    {"done", func(s state) { s.Spent.Cost = 0 }, agent.ErrReserved},
		"most":     {"done", func(s state) { s.Most = 7 }, agent.ErrReserved},
		"created":  {"done", func(s state) { s.Created = time.Now() }, agent.ErrReserved},
		"reason":   {"done", func(s state) { s.Reason = agent.Budget }, agent.ErrReserved},
		"names":    {"done", func(s state) { s.Said = []transcript.Span{{From: 1, Through: 9}} }, agent.ErrReserved},
		"says":     {"done", func(s state) { s.Tail = append(s.Tail, message.User("x")) }, agent.ErrReserved},
		"rewrites": {"done", func(s state) { s.Tail[0].Blocks[0].Text = "x" }, agent.ErrReserved},
		"reorders": {"done", func(s state) { s.Tail = s.Tail[1:] }, agent.ErrReserved},
		"sums":     {"done", func(s state) { s.Summary = "x" }, agent.ErrReserved},
		"waits":    {"waits", func(s state) { s.KeepFirst(1) }, agent.ErrPending},
		"parts":    {"done", func(s state) { s.KeepFirst(2) }, agent.ErrParted},
		"partly":   {"done", func(s state) { s.KeepFirst(3) }, agent.ErrParted},
	} {
		_, version := Get(t, a, c.session)
		_, err := a.Update(t.Context(), c.session, 0, func(s *agent.State[None]) error { c.change(s); return nil })
		if in := new(orchestrator.InputError); !errors.Is(err, c.want) || !errors.As(err, &in) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if _, now := Get(t, a, c.session); now != version {
			t.Errorf("%s: version %d after %d", name, now, version)
		}
	}
	fails := func(*agent.State[None]) error { return ErrModel }
	if _, err := a.Update(t.Context(), "done", 0, fails); !errors.Is(err, ErrModel) {
		t.Error(err)
	}
}

// KeepFirst shortens a session.
func KeepFirst[C any](t *testing.T, a *agent.Agent[C], session string, n int) {
	t.Helper()
	_, err := a.Update(t.Context(), session, 0, func(s *agent.State[C]) error { s.KeepFirst(n); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

// A summary stays as long as all that it stands for does. Then the model sees what is left.
func keepFirstSummed(t *testing.T, st agent.Stores) {
	var sees string
	d := agent.Definition[None]{
		Compact: &agent.Compaction{Above: 1 << 20, Keep: 120, Model: agent.ModelFunc(
			func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
				return Says("they looked things up")
			},
		)},
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			sees = Print(r.Said)
			return Says(fmt.Sprint("re ", len(r.Said)))
		}),
	}
	for _, c := range []struct {
		keep int
		want string
	}{
		{12, "user [summary of what was said before]\nthey looked things up | "},
		{9, "user [summary of what was said before]\nthey looked things up | "},
		{3, "user m 0 | assistant re 1 | user m 1 | user now"},
		{0, "user now"},
	} {
		a, session := New(t, d, st), fmt.Sprint("s", c.keep)
		for i := range 6 {
			Say(t, a, session, fmt.Sprint("m ", i))
		}
		o, err := a.Compact(t.Context(), session, nil)
		Settled(t, o, err)
		was, _ := Get(t, a, session)
		if n := transcript.Count(was.Behind); n < 5 || n > 9 {
			t.Fatalf("the summary stands for %d messages", n)
		}
		KeepFirst(t, a, session, c.keep)
		s, _ := Get(t, a, session)
		if n := int(transcript.Count(transcript.Union(s.Said, s.Behind))) + len(s.Tail); n != c.keep {
			t.Errorf("%d messages, want %d", n, c.keep)
		}
		if Say(t, a, session, "now"); !strings.HasPrefix(sees, c.want) {
			t.Errorf("of the first %d the model sees %q, want %q", c.keep, sees, c.want)
		}
	}
}

// What a program says of a session is there after a pause and a restart, and an update of a part leaves the rest.
func labelsStay(t *testing.T, st agent.Stores) {
	w := new(Shop)
	l := agent.Labels{
		User: "ann", Tags: []string{"a", "b"}, Metadata: map[string]string{"x": "1", "y": "2"}, Mode: "standard",
		Workspace: []byte(`{"dir":"/w"}`), Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond),
	}
	if err := New(t, w.Definition(), st).Create(t.Context(), "s", None{}, l); err != nil {
		t.Fatal(err)
	}
	Say(t, New(t, w.Definition(), st), "s", "refund A1")
	a := New(t, w.Definition(), st)
	_, err := a.Update(t.Context(), "s", 0, func(s *agent.State[None]) error { s.Metadata["x"] = "3"; return nil })
	if err != nil {
		t.Fatal(err)
	}
	l.Metadata["x"] = "3"
	s, _ := Get(t, a, "s")
	s.Workspace = bytes.ReplaceAll(s.Workspace, []byte(": "), []byte(":")) // a database writes JSON in its own way
	if !reflect.DeepEqual(s.Labels, l) || s.Status != agent.Paused {
		t.Errorf("%s: %+v\nwant %+v", s.Status, s.Labels, l)
	}
}

// Sessions are found by their user, by a tag, by when they expire, and while they wait. What changes is found as it is.
func sessionsByLabel(t *testing.T, st agent.Stores) {
	w := new(Shop)
	a := New(t, w.Definition(), st)
	end := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for session, l := range map[string]agent.Labels{
		"a": {User: "ann", Tags: []string{"vip", "vip", strings.Repeat("x", 300)}, Expires: end},
		"b": {User: "bob", Tags: []string{"vip"}, Expires: end.Add(time.Hour)}, "c": {User: "ann"},
	} {
		if err := a.Create(t.Context(), session, None{}, l); err != nil {
			t.Fatal(err)
		}
	}
	found := func(q checkpoint.SessionQuery, want ...string) {
		t.Helper()
		var got []string
		for session, err := range a.Sessions(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, session)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
	found(checkpoint.SessionQuery{Label: agent.LabelUser("ann")}, "a", "c")
	found(checkpoint.SessionQuery{Label: agent.LabelUser("ann"), After: "a"}, "c")
	found(checkpoint.SessionQuery{Label: agent.LabelTag("vip")}, "a", "b")
	found(checkpoint.SessionQuery{Label: agent.LabelExpires, By: end}, "a")
	found(checkpoint.SessionQuery{Label: agent.LabelWaiting})

	o := Say(t, a, "c", "refund A1")
	found(checkpoint.SessionQuery{Label: agent.LabelWaiting}, "c")
	for _, ans := range []agent.Answer{agent.Done("photo"), agent.Approve("desk")} {
		found(checkpoint.SessionQuery{Label: agent.LabelWaiting}, "c")
		i := slices.IndexFunc(o.Pending, func(p agent.Pending) bool { return p.Kind == ans.Kind })
		next, err := a.Submit(t.Context(), "c", o.Pending[i].Call.ID, ans)
		Settled(t, next, err)
	}
	found(checkpoint.SessionQuery{Label: agent.LabelWaiting}) // it is paused, and nothing is missing
	o, err := a.Continue(t.Context(), "c", nil)
	Settled(t, o, err)

	_, err = a.Update(t.Context(), "a", 0, func(s *agent.State[None]) error { s.User = "eve"; return nil })
	if err != nil {
		t.Fatal(err)
	}
	found(checkpoint.SessionQuery{Label: agent.LabelUser("ann")}, "c")
	found(checkpoint.SessionQuery{Label: agent.LabelUser("eve")}, "a")
	if err := a.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	found(checkpoint.SessionQuery{Label: agent.LabelTag("vip")}, "b")
}

// A long session keeps its first messages, wherever they are kept. A branch of it has all of them, also when the
// session is deleted.
func keepFirst(t *testing.T, st agent.Stores) {
	a := New(t, agent.Definition[None]{Model: agent.ModelFunc(
		func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			return Says(Last(r).Blocks[0].Text)
		},
	)}, st)
	said := []message.Message{message.User("hi")}
	for range 499 {
		said = append(said, message.Assistant("ho"), message.User("hi"))
	}
	said = append(said, message.Assistant("end"))
	if _, err := a.Import(t.Context(), "s", said, None{}, agent.Labels{}); err != nil {
		t.Fatal(err)
	}
	_, version := Get(t, a, "s")
	if err := a.Branch(t.Context(), "s", version, "b"); err != nil {
		t.Fatal(err)
	}
	if _, version := Get(t, a, "b"); version != 1 { // nothing has waited
		t.Errorf("the branch has version %d", version)
	}
	for _, c := range []struct{ keep, want int }{{1000, 1000}, {400, 400}, {999, 400}, {399, 399}} {
		KeepFirst(t, a, "s", c.keep)
		if n := len(strings.Split(Told(t, a, "s"), " | ")); n != c.want {
			t.Errorf("the first %d are %d, want %d", c.keep, n, c.want)
		}
	}
	Say(t, a, "s", Long)
	Say(t, a, "s", "more")
	if got := Told(t, a, "s"); !strings.HasPrefix(got, "user hi | assistant ho") || strings.Contains(got, "end") {
		t.Error(got)
	}
	if err := a.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if got := Told(t, a, "b"); len(strings.Split(got, " | ")) != 1000 || !strings.HasSuffix(got, "assistant end") {
		t.Error(got)
	}
	KeepFirst(t, a, "b", 0)
	Say(t, a, "b", "anew")
	if got := Told(t, a, "b"); got != "user anew | assistant anew" {
		t.Error(got)
	}
}
