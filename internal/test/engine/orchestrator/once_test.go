package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A person answers, and the run goes on with the next Resume, input or drain. K29.
func TestAnswered(t *testing.T) {
	landed := ledger.Answer{Landed: true, Result: []byte(`"by hand"`), By: "ann"}
	for _, c := range []struct {
		name   string
		answer ledger.Answer
		said   string
		paid   int
	}{
		{"landed", landed, "by hand", 1},
		{"not landed", ledger.Answer{By: "ann"}, "receipt 2 for shoes", 2},
		{"skip", ledger.Answer{Skip: true, By: "ann"}, "skipped", 1},
	} {
		for how, goOn := range map[string]func(*testing.T, *Bot) error{
			"resume": func(t *testing.T, bot *Bot) error {
				_, err := bot.Resume(t.Context(), "s", nil)
				return err
			},
			"input": func(t *testing.T, bot *Bot) error {
				res, err := bot.Execute(t.Context(), "s", Input{Text: "thanks"}, nil)
				if err == nil && res.Resumed == nil {
					err = errors.New("nothing was resumed")
				}
				return err
			},
			"drain": func(t *testing.T, bot *Bot) error {
				if due := recoverable(t, bot, true); !slices.Equal(due, []string{"s"}) {
					return fmt.Errorf("due: %q", due)
				}
				outcome, err := bot.Recover(t.Context(), "s")
				if err == nil && outcome != "settled" {
					err = errors.New(outcome)
				}
				return err
			},
		} {
			t.Run(c.name+" "+how, func(t *testing.T) {
				backends(t, func(t *testing.T, w world) {
					s := shop{World: w, Ledger: new(ledger.Memory), Vendor: &vendor{Fail: []error{errTimeout}}}
					var log lockedBuffer
					bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
						if t.Input.Text == "thanks" {
							return nil
						}
						receipt, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{Key: "order 7"})
						if errors.Is(err, ledger.ErrSkipped) {
							receipt, err = "skipped", nil
						}
						t.State.Said = append(t.State.Said, receipt)
						return err
					}), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
					_, err := bot.Execute(t.Context(), "s", Input{Text: "shoes"}, nil)
					d := theDoubt(t, err, true)
					if !errors.Is(err, errTimeout) {
						t.Errorf("%v does not say why", err)
					}
					if _, err := bot.Resume(t.Context(), "s", nil); !errors.Is(err, orchestrator.ErrSuspended) {
						t.Fatalf("resumed before the answer: %v", err)
					}
					_, err = bot.Execute(t.Context(), "s", Input{Text: "well?"}, nil)
					if !errors.Is(err, orchestrator.ErrSuspended) {
						t.Fatalf("another input before the answer: %v", err)
					}
					if due := recoverable(t, bot, true); len(due) > 0 {
						t.Errorf("due before the answer: %q", due)
					}
					if run := wantRuns(t, bot, 1)[0]; run.Status != snapshot.Suspended || run.Attempt > 1 {
						t.Errorf("run %s, attempt %d", run.Status, run.Attempt)
					}
					if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], c.answer); err != nil {
						t.Fatal(err)
					}
					err = ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], landed)
					if !errors.Is(err, ledger.ErrAnswered) {
						t.Errorf("a second answer: %v", err)
					}
					if e := s.Effect(t); e.AnsweredBy != "ann" || e.AnsweredAt.IsZero() {
						t.Errorf("answered by %q at %v", e.AnsweredBy, e.AnsweredAt)
					}
					if err := goOn(t, bot); err != nil {
						t.Fatal(err)
					}
					wantRuns(t, bot, 0)
					if !strings.Contains(log.String(), "by=ann") {
						t.Errorf("the log does not say who has answered:\n%s", log.String())
					}
					for res, err := range bot.Turns(t.Context(), "s") {
						if err != nil {
							t.Fatal(err)
						}
						wantSaid(t, res.State, c.said)
					}
					if n := s.Vendor.Count(); n != c.paid {
						t.Errorf("paid %d times, want %d", n, c.paid)
					}
				})
			})
		}
	}
}
