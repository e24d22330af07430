package orchestrator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/orchestrator/orchestratortest"
	"github.com/holdfast-go/holdfast/store"
)

func wantItems(t testing.TB, s inbox.Store, bot *Bot, kind inbox.Kind, want ...string) {
	t.Helper()
	var got []string
	for it, err := range s.Items(t.Context(), inbox.Key{Orchestrator: bot.Name()}, kind) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, it.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("items of the kind %s: %q, want %q", kind, got, want)
	}
}

// What was accepted is run in its order, by a pass of the watch, or before the next input, each once.
func TestEnqueue(t *testing.T) {
	for name, run := range map[string]func(*testing.T, *Bot) []string{
		"a pass": func(t *testing.T, bot *Bot) []string {
			if got := recoverAll(t, bot); !slices.Equal(got, []string{"settled"}) {
				t.Errorf("outcomes %q", got)
			}
			return []string{"a", "b", "c"}
		},
		"Execute": func(t *testing.T, bot *Bot) []string {
			execute(t, bot, Input{Text: "d"})
			return []string{"a", "b", "c", "d"}
		},
		"Execute of one that waits": func(t *testing.T, bot *Bot) []string {
			execute(t, bot, Input{RequestID: "b", Text: "b"})
			return []string{"a", "b"}
		},
		"Put": func(t *testing.T, bot *Bot) []string {
			if _, err := bot.Put(t.Context(), "s", 3, Input{Text: "put"}, add(1), nil); err != nil {
				t.Error(err)
			}
			return []string{"a", "b", "c", "put"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(inbox.Memory)
			bot := newWorld().Start(t, echo(), Options{Inbox: s})
			enqueue(t, bot, "a", "b", "c", "b")
			wantTurns(t, bot)
			want := run(t, bot)
			wantTurns(t, bot, want...)
			if len(want) == 2 {
				recoverAll(t, bot)
				want = []string{"a", "b", "c"}
			}
			enqueue(t, bot, "a", "b") // their turns have settled
			recoverAll(t, bot)
			wantTurns(t, bot, want...)
			wantItems(t, s, bot, inbox.Input)
			if got := recoverAll(t, bot); got != nil {
				t.Errorf("outcomes %q", got)
			}
			res, err := bot.Turn(t.Context(), "s", 0)
			if err != nil || res.Input.Kind != "job" || res.Input.By != "ada" {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

func TestEnqueueRefused(t *testing.T) {
	s := new(inbox.Memory)
	bot := newWorld().Start(t, echo(), Options{Inbox: s, Limits: orchestrator.Limits{Queue: 2}})
	enqueue(t, bot, "a", "b")
	err := bot.Enqueue(t.Context(), "s", Input{RequestID: "c", Text: "c"})
	wantErr(t, err, orchestrator.ErrQueueFull)
	for _, other := range []Input{
		{RequestID: "a", Text: "other"}, {RequestID: "a", Text: "a", Origin: orchestrator.FromAnswer},
	} {
		wantErr(t, bot.Enqueue(t.Context(), "s", other), orchestrator.ErrRequestReused)
	}
	err = newWorld().Start(t, echo(), Options{}).Enqueue(t.Context(), "s", Input{RequestID: "a"})
	wantErr(t, err, orchestrator.ErrNoInbox)
	for _, in := range []Input{{}, {RequestID: "x", Kind: "a b"}, {RequestID: "x", Text: "\xff"}} {
		if err := bot.Enqueue(t.Context(), "s", in); orchestrator.Public(err).Status != 422 {
			t.Errorf("%+v: %v", in, err)
		}
	}
	enqueue(t, bot, "a") // a repeat is taken, although no other input is
	_, err = bot.Execute(t.Context(), "s", Input{RequestID: "b", Text: "other"}, nil)
	wantErr(t, err, orchestrator.ErrRequestReused)
	wantTurns(t, bot, "a", "b")
	_, err = orchestrator.New(echo(), newWorld().Checkpoints, &Options{Inbox: s})
	if err == nil {
		t.Error("New takes an Inbox without Snapshots")
	}
}

// An input whose turn fails is tried again, and then set aside. It does not keep the next one waiting for ever, and it
// is told of.
func TestEnqueueFails(t *testing.T) {
	failing := errors.New("secret")
	d := func() Def {
		return Def{
			Name: "echo",
			Begin: func(_ context.Context, t *Turn) error {
				if t.Input.Text == "refused" {
					return failing
				}
				return nil
			},
			Intents: Intents{"echo": {Run: func(ctx context.Context, t *Turn) error {
				if t.Input.Text == "fails" {
					return failing
				}
				return say(t.Input.Text)(ctx, t)
			}}},
		}
	}
	for name, tries := range map[string]int{"watch": 3, "Execute": 1} {
		synctest.Test(t, func(t *testing.T) {
			var logged bytes.Buffer
			var events diary
			s := new(inbox.Memory)
			bot := newWorld().Start(t, d(), Options{
				Inbox: s, Limits: orchestrator.Limits{Attempts: 3}, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
			})
			defer bot.Subscribe(events.Note)()
			enqueue(t, bot, "fails", "refused", "good")
			want := []string{"good"}
			if name == "Execute" {
				execute(t, bot, Input{Text: "last"})
				want = append(want, "last") // each is tried once
			}
			for range 2 * tries {
				recoverAll(t, bot)
				time.Sleep(10 * time.Minute)
			}
			synctest.Wait()
			wantTurns(t, bot, want...)
			wantItems(t, s, bot, inbox.Input)
			wantItems(t, s, bot, inbox.Failed, "fails", "refused")
			wantRuns(t, bot, 0)
			kinds := events.Kinds()
			if n := strings.Count(kinds, "turn.left"); n != tries-1 {
				t.Errorf("%s: left %d times: %s", name, n, kinds)
			}
			if strings.Count(kinds, "turn.failed") != 1 || strings.Count(kinds, "turn.refused") != 1 {
				t.Errorf("%s: events %s", name, kinds)
			}
			text := logged.String()
			if strings.Count(text, "set aside") != 2 || strings.Contains(text, "secret") {
				t.Errorf("%s: the log says\n%s", name, text)
			}
		})
	}
}

// A run that kills its process each time is not parked in front of what waits.
func TestEnqueueKills(t *testing.T) {
	w := newWorld()
	s := new(inbox.Memory)
	enqueue(t, w.Start(t, echo(), Options{Inbox: s}), "bad", "good")
	limits := orchestrator.Limits{Attempts: 2}
	for range 2 {
		grave := &grave{World: w}
		d := echo()
		d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { grave.Die(); return nil }}
		bot := grave.Ends().Start(t, d, Options{Inbox: s, Limits: limits})
		recoverAll(t, bot)
		w.FreeUp(t, "echo")
	}
	bot := w.Start(t, echo(), Options{Inbox: s, Limits: limits})
	recoverAll(t, bot)
	wantTurns(t, bot, "good")
	wantItems(t, s, bot, inbox.Failed, "bad")
	wantRuns(t, bot, 0)
	if p, err := bot.Progress(t.Context(), "s", "bad"); err != nil || p.Problem.Type != "bot-failed" {
		t.Errorf("%+v, %v", p, err)
	}
}

// Who ends a run, or deletes a session, ends what was accepted.
func TestEnqueueForgotten(t *testing.T) {
	w := newWorld()
	s := new(inbox.Memory)
	enqueue(t, w.Start(t, echo(), Options{Inbox: s}), "bad", "good")
	grave := &grave{World: w}
	d := echo()
	d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { grave.Die(); return nil }}
	recoverAll(t, grave.Ends().Start(t, d, Options{Inbox: s}))
	w.FreeUp(t, "echo")
	bot := w.Start(t, echo(), Options{Inbox: s})
	if err := abandon(t, bot, "s"); err != nil {
		t.Fatal(err)
	}
	wantItems(t, s, bot, inbox.Input, "good")
	recoverAll(t, bot)
	wantTurns(t, bot, "good")
	enqueue(t, bot, "late")
	if err := bot.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	wantItems(t, s, bot, inbox.Input)
}

// A dying inbox belongs to a process that dies before or after one of its calls.
type dyingInbox struct {
	*inbox.Memory
	kill   func()
	dead   func() bool
	method string
	after  bool
}

func (s *dyingInbox) around(method string, do func() error) error {
	if s.dead() {
		return lock.ErrFenced
	}
	if method == s.method && !s.after {
		s.kill()
		return lock.ErrFenced
	}
	err := do()
	if method == s.method {
		s.kill()
		return lock.ErrFenced
	}
	return err
}

func (s *dyingInbox) Post(ctx context.Context, it inbox.Item) (first bool, err error) {
	err = s.around("Post", func() (err error) { first, err = s.Memory.Post(ctx, it); return err })
	return first && err == nil, err
}

func (s *dyingInbox) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	return s.around("Remove", func() error { return s.Memory.Remove(ctx, k, kind, ids...) })
}

func (s *dyingInbox) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	if err := s.around("Items", func() error { return nil }); err != nil {
		return func(yield func(inbox.Item, error) bool) { yield(inbox.Item{}, err) }
	}
	return s.Memory.Items(ctx, k, kind)
}

// A process dies before or after any call, while it accepts or runs. What was accepted settles once, in its order.
func TestEnqueueCrashes(t *testing.T) {
	d := echo()
	d.Deliver = func(context.Context, *Result) error { return nil }
	for _, step := range []string{
		"inbox.Post", "inbox.Items", "inbox.Remove", "checkpoint.Claim", "snapshot.Runs", "snapshot.Begin",
		"checkpoint.Append", "snapshot.Delete", "checkpoint.Mark", "echo", "Deliver",
	} {
		for _, after := range []bool{false, true} {
			for _, pass := range []bool{false, true} {
				what := fmt.Sprintf("%s, after %t, a pass %t", step, after, pass)
				synctest.Test(t, func(t *testing.T) {
					var w orchestratortest.World
					kept := new(inbox.Memory)
					var first *orchestratortest.Process[State]
					dying := &dyingInbox{Memory: kept, after: after}
					dying.kill, dying.dead = func() { first.Kill() }, func() bool { return first.Dead() }
					dying.method, _ = strings.CutPrefix(step, "inbox.")
					first = orchestratortest.Start(&w, d, &Options{Inbox: dying})
					switch {
					case strings.HasPrefix(step, "inbox."):
					case after:
						first.DieAfter(step, 1)
					default:
						first.DieBefore(step, 1)
					}
					var want []string
					for _, text := range []string{"a", "b"} {
						err := first.Bot.Enqueue(t.Context(), "s", Input{RequestID: text, Text: text})
						if err == nil {
							want = append(want, text)
						}
					}
					if pass {
						for session, err := range first.Bot.Recoverable(t.Context(), true) {
							if err == nil {
								_, _ = first.Bot.Recover(t.Context(), session)
							}
						}
					} else {
						_, _ = first.Bot.Execute(t.Context(), "s", Input{RequestID: "c", Text: "c"}, nil)
					}
					if !first.Dead() {
						return // the call is not made here
					}
					time.Sleep(time.Minute)
					second := orchestratortest.Start(&w, d, &Options{Inbox: kept})
					if step == "inbox.Post" { // it may have been accepted without an answer
						want = []string{"a", "b"}
						enqueue(t, second.Bot, want...)
					}
					for range 3 {
						recoverAll(t, second.Bot)
						time.Sleep(time.Hour)
					}
					got := turns(t, second.Bot)
					if n := len(want); len(got) < n || !slices.Equal(got[:n], want) || len(got) > n+1 {
						t.Errorf("%s: turns %q, want %q", what, got, want)
					}
					wantItems(t, kept, second.Bot, inbox.Input)
					wantRuns(t, second.Bot, 0)
				})
			}
		}
	}
}

// An inbox that is away lets no input go in front of what waits, and refuses to accept.
func TestEnqueueAway(t *testing.T) {
	away := fmt.Errorf("%w: away", store.ErrRefused)
	bot := newWorld().Start(t, echo(), Options{Inbox: awayInbox{new(inbox.Memory), away}})
	err := bot.Enqueue(t.Context(), "s", Input{RequestID: "r"})
	wantErr(t, err, orchestrator.ErrUnavailable)
	_, err = bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
	wantErr(t, err, orchestrator.ErrUnavailable)
	_, err = bot.Progress(t.Context(), "s", "a")
	wantErr(t, err, orchestrator.ErrUnavailable)
	for session, err := range bot.Recoverable(t.Context(), true) {
		if session != "" || err == nil {
			t.Errorf("%q, %v", session, err)
		}
	}
}

type awayInbox struct {
	*inbox.Memory
	err error
}

func (s awayInbox) Item(context.Context, inbox.Key, inbox.Kind, string) (inbox.Item, error) {
	return inbox.Item{}, s.err
}

func (s awayInbox) Items(context.Context, inbox.Key, inbox.Kind) iter.Seq2[inbox.Item, error] {
	return func(yield func(inbox.Item, error) bool) { yield(inbox.Item{}, s.err) }
}
