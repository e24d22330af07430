package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/orchestrator"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// asked returns a desk whose bot asks for a refund in session s, and what it asks.
func asked(t *testing.T) (*approval.Desk[refund], approval.Asked) {
	t.Helper()
	bot, err := orchestrator.New(orchestrator.Definition[refund]{
		Name: "refunds", Intents: orchestrator.Intents[refund]{"pay": {Run: pay}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bot.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if _, err := bot.Execute(t.Context(), "s", orchestrator.Input{Text: "pay"}, nil); err != nil {
		t.Fatal(err)
	}
	d := deskOf(bot, new(inbox.Memory))
	all, err := d.Asked(t.Context(), "s")
	if err != nil || len(all) != 1 || all[0].Answered {
		t.Fatalf("%+v, %v", all, err)
	}
	return d, all[0]
}

func yes(q approval.Asked, by string) approval.Answer {
	return approval.Answer{Data: json.RawMessage("true"), Sum: q.Sum, By: by}
}

// What is refused is not kept, and the first good answer counts afterwards.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		id     string // of the question, if it is another
		change func(*approval.Desk[refund], *approval.Answer)
		want   error
	}{
		"not asked": {"refund-2", func(*approval.Desk[refund], *approval.Answer) {}, approval.ErrNotAsked},
		"changed":   {"", func(_ *approval.Desk[refund], a *approval.Answer) { a.Sum = "x" }, approval.ErrChanged},
		"client":    {"", func(_ *approval.Desk[refund], a *approval.Answer) { a.Client = true }, approval.ErrDenied},
		"malformed": {"", func(_ *approval.Desk[refund], a *approval.Answer) { a.Data = []byte("7") }, approval.ErrInvalid},
		"not kept":  {"", func(_ *approval.Desk[refund], a *approval.Answer) { a.By = "\x00" }, approval.ErrInvalid},
		"panics": {"", func(d *approval.Desk[refund], _ *approval.Answer) {
			d.Answer = func(approval.Question, approval.Answer) (orchestrator.Input, error) { panic("card 4711") }
		}, new(orchestrator.PanicError)},
		"expired": {"", func(d *approval.Desk[refund], _ *approval.Answer) {
			questions := d.Questions
			d.Questions = func(s *refund) []approval.Question {
				all := questions(s)
				for i := range all {
					all[i].Expires = time.Unix(1, 0)
				}
				return all
			}
		}, approval.ErrExpired},
	} {
		t.Run(name, func(t *testing.T) {
			d, q := asked(t)
			other, a := *d, yes(q, "ann")
			c.change(&other, &a)
			if c.id == "" {
				c.id = q.ID
			}
			_, err := other.Execute(t.Context(), "s", c.id, a)
			if _, panics := c.want.(*orchestrator.PanicError); panics {
				if e := new(orchestrator.PanicError); !errors.As(err, &e) {
					t.Errorf("got %v", err)
				}
			} else if !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
			if res, err := d.Execute(t.Context(), "s", q.ID, yes(q, "ann")); err != nil || !res.State.Paid {
				t.Errorf("a good answer: %v", err)
			}
		})
	}
}

// Of two answers the first one counts, also before its turn has run. A repeat of it gets its result, and runs nothing.
func TestFirstCounts(t *testing.T) {
	d, q := asked(t)
	if _, err := d.Post(t.Context(), "s", q.ID, yes(q, "ann")); err != nil {
		t.Fatal(err)
	}
	now, err := d.Question(t.Context(), "s", q.ID)
	if err != nil || !now.Answered || now.By != "ann" {
		t.Errorf("while it waits: %+v, %v", now, err)
	}
	if _, err := d.Execute(t.Context(), "s", q.ID, yes(q, "bob")); !errors.Is(err, approval.ErrAnswered) {
		t.Errorf("the answer of another: %v", err)
	}
	for _, replayed := range []bool{false, true} {
		res, err := d.Execute(t.Context(), "s", q.ID, yes(q, "ann"))
		if err != nil || res.Replayed != replayed || !res.State.Paid || res.Turn != 1 {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if now, err = d.Question(t.Context(), "s", q.ID); err != nil || !now.Answered || now.By != "ann" {
		t.Errorf("after its turn: %+v, %v", now, err)
	}
	if _, err := d.Question(t.Context(), "s", "another"); !errors.Is(err, approval.ErrNotAsked) {
		t.Errorf("another question: %v", err)
	}
}

// A process dies after it has left an answer. Run takes it.
func TestRunTakesWhatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, q := asked(t)
		if _, err := d.Post(t.Context(), "s", q.ID, yes(q, "ann")); err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		time.Sleep(time.Minute)
		res, err := d.Bot.Turn(t.Context(), "s", checkpoint.Newest)
		if err != nil || !res.State.Paid || res.Input.By != "ann" {
			t.Errorf("%+v, %v", res, err)
		}
		for it, err := range d.Inbox.Items(t.Context(), inbox.Key{Orchestrator: "refunds"}, inbox.Answer) {
			t.Errorf("the inbox has %+v, %v", it, err)
		}
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
