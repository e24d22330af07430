package orchestrator_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// labeled is echo with a label for each word of the last input. A word with a colon has a time.
func labeled() Def {
	d := echo()
	d.Labels = func(s *State) (all []checkpoint.Label) {
		for _, word := range strings.Fields(s.Said[len(s.Said)-1]) {
			l := checkpoint.Label{Name: word}
			if name, due := strings.CutSuffix(word, ":due"); due {
				l = checkpoint.Label{Name: name, At: time.UnixMilli(1)}
			}
			all = append(all, l)
		}
		return all
	}
	return d
}

// foundBy returns the sessions that q selects.
func foundBy(t *testing.T, bot *Bot, q checkpoint.SessionQuery) string {
	t.Helper()
	var all []string
	for session, err := range bot.Sessions(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, session)
	}
	return strings.Join(all, " ")
}

func wantFound(t *testing.T, bot *Bot, labels map[string]string) {
	t.Helper()
	for label, want := range labels {
		if got := foundBy(t, bot, checkpoint.SessionQuery{Label: label}); got != want {
			t.Errorf("%s: got sessions %q, want %q", label, got, want)
		}
	}
}

// A session is found by the labels of its newest turn, on every backend.
func TestLabels(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		bot := w.Start(t, labeled(), Options{})
		in := func(session, text string) {
			t.Helper()
			if _, err := bot.Execute(t.Context(), session, Input{Text: text}, nil); err != nil {
				t.Fatal(err)
			}
		}
		in("s", "user wait")
		in("r", "user")
		wantFound(t, bot, map[string]string{"user": "r s", "wait": "s"})
		in("s", "user done:due")
		in("s", "done:due user") // the same labels
		wantFound(t, bot, map[string]string{"user": "r s", "wait": "", "done": "s"})
		if got := foundBy(t, bot, checkpoint.SessionQuery{Label: "done", By: time.Now()}); got != "s" {
			t.Errorf("%q is due", got)
		}
		if err := bot.Fork(t.Context(), "s", checkpoint.Newest, "fork"); err != nil {
			t.Fatal(err)
		}
		wantFound(t, bot, map[string]string{"user": "fork r s", "done": "fork s"})
		in("fork", "wait")
		wantFound(t, bot, map[string]string{"user": "r s", "done": "s", "wait": "fork"})
		if err := bot.Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		wantFound(t, bot, map[string]string{"user": "r", "done": ""})
	})
}

// The engine writes labels only if they are others than those of the turn before.
func TestLabelsThatStay(t *testing.T) {
	w := newWorld()
	written := &relabels{Store: w.Checkpoints}
	w.Checkpoints = written
	in := func(d Def, session, text string, want ...string) {
		t.Helper()
		bot := w.Start(t, d, Options{})
		if _, err := bot.Execute(t.Context(), session, Input{Text: text}, nil); err != nil {
			t.Fatal(err)
		}
		if got := written.take(); !slices.Equal(got, want) {
			t.Errorf("%s, %s: the turn writes %q, want %q", session, text, got, want)
		}
	}
	plain := echo()
	in(plain, "s", "a")
	in(labeled(), "s", "a", "a") // a deploy that adds Labels
	in(labeled(), "s", "a")
	in(labeled(), "s", "b a", "a b")
	in(labeled(), "s", "a b") // the order counts for nothing
	in(labeled(), "s", "a:due b", "a b")
	in(labeled(), "s", "", "")
	in(labeled(), "s", "")
	in(labeled(), "s", "x", "x")
	in(plain, "s", "a", "") // a deploy that removes Labels
	in(plain, "s", "a")
	in(labeled(), "s", "", "") // a process without Labels may have been at work
	in(labeled(), "new", "", "")
	in(labeled(), "s", "x", "x")
	bot := w.Start(t, plain, Options{})
	if err := bot.Fork(t.Context(), "s", checkpoint.Newest, "fork"); err != nil {
		t.Fatal(err)
	}
	in(labeled(), "fork", "x", "x") // not those of s
}

// A relabels notes which labels are written.
type relabels struct {
	checkpoint.Store
	written []string
}

func (s *relabels) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	if o.Relabel {
		var names []string
		for _, label := range o.Labels {
			names = append(names, label.Name)
		}
		s.written = append(s.written, strings.Join(names, " "))
	}
	return s.Store.Append(ctx, l, cp, o)
}

func (s *relabels) take() []string {
	taken := s.written
	s.written = nil
	return taken
}

// If Labels panics, or returns what no store takes, the turn settles, and its labels stay. It is logged once.
func TestLabelsFail(t *testing.T) {
	for what, fail := range map[string]func() []checkpoint.Label{
		"panic":   func() []checkpoint.Label { panic("secret") },
		"refused": func() []checkpoint.Label { return []checkpoint.Label{{Name: "a\x00"}} },
		"twice":   func() []checkpoint.Label { return []checkpoint.Label{{Name: "a"}, {Name: "a"}} },
	} {
		t.Run(what, func(t *testing.T) {
			w, d := newWorld(), labeled()
			right := d.Labels
			d.Labels = func(s *State) []checkpoint.Label {
				if strings.HasPrefix(s.Said[len(s.Said)-1], "bad") {
					return fail()
				}
				return right(s)
			}
			var text bytes.Buffer
			bot := w.Start(t, d, Options{Logger: slog.New(slog.NewTextHandler(&text, nil))})
			execute(t, bot, Input{Text: "good"})
			execute(t, bot, Input{Text: "bad"})
			execute(t, bot, Input{Text: "bad again"})
			wantFound(t, bot, map[string]string{"good": "s"})
			if n := strings.Count(text.String(), "labels of sessions stay as they are"); n != 1 {
				t.Errorf("%d lines: %s", n, text.String())
			}
			execute(t, bot, Input{Text: "better"})
			wantFound(t, bot, map[string]string{"good": "", "better": "s"})
		})
	}
}
