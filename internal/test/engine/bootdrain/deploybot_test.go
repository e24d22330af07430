package bootdrain_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// doServe is the job of a process that serves requests. Body says which definition it has.
const doServe = "serve"

// The definitions of a bot, in the order of their deploys.
const (
	oldest  = "oldest"
	added   = "added"   // with another field, a field within a slice, and another intent
	renamed = "renamed" // with another name for one field, and Migrate
	removed = "removed" // without the field that the second deploy has added
)

type oldestTalk struct {
	Said  []string
	Items []struct{ ID string }
}

type addedItem struct {
	ID  string
	Tip string `json:",omitempty"`
}

type addedTalk struct {
	Said  []string
	Items []addedItem
	Notes []string `json:",omitempty"`
}

type renamedTalk struct {
	Words []string
	Items []addedItem
	Notes []string `json:",omitempty"`
}

type removedTalk struct {
	Words []string
	Items []addedItem
}

// A request asks a process to execute an input, or to drain a session.
type request struct {
	Drain             bool
	Session, Text, ID string
	DieIn             string // the intent that kills the process
}

// A reply is the state after a turn, the outcome of a drain, or why there is none.
type reply struct {
	Said, Notes, Tips []string
	Outcome           string
	Drift             *orchestrator.DriftError
	Err               string
}

// A version is a definition as the process of one deploy has it.
type version[S any] struct {
	orchestrator.Definition[S]
	show func(S) reply
}

// notes reports whether a text is to be noted by the intent that the second deploy has added.
func notes(text string) bool { return strings.HasPrefix(text, "note") }

// serveDeploy answers one request after the other.
func serveDeploy(ctx context.Context, j job) error {
	var dies request
	intent := func(name string, session, text string) {
		if dies.DieIn == name && dies.Session == session && dies.Text == text {
			suicide()
		}
	}
	switch j.Body {
	case oldest:
		type S = oldestTalk
		return serveVersion(ctx, j, &dies, version[S]{orchestrator.Definition[S]{
			Intents: orchestrator.Intents[S]{"listen": {
				Next: orchestrator.End,
				Run: func(_ context.Context, t *orchestrator.Turn[S]) error {
					intent("listen", t.Session, t.Input.Text)
					t.State.Said = append(t.State.Said, t.Input.Text)
					return nil
				},
			}},
		}, func(s S) reply { return reply{Said: s.Said} }})
	case added:
		type S = addedTalk
		return serveVersion(ctx, j, &dies, version[S]{orchestrator.Definition[S]{
			Intents: recording(intent, func(s *S) (*[]string, *[]string, *[]addedItem) {
				return &s.Said, &s.Notes, &s.Items
			}),
		}, func(s S) reply { return reply{Said: s.Said, Notes: s.Notes, Tips: tips(s.Items)} }})
	case renamed:
		type S = renamedTalk
		return serveVersion(ctx, j, &dies, version[S]{orchestrator.Definition[S]{
			Version: "2",
			Intents: recording(intent, func(s *S) (*[]string, *[]string, *[]addedItem) {
				return &s.Words, &s.Notes, &s.Items
			}),
			Migrate: func(ctx context.Context, cp checkpoint.Checkpoint) (S, error) {
				if cp.Version != "" {
					return orchestrator.Strict[S](ctx, cp)
				}
				before, err := orchestrator.Strict[addedTalk](ctx, cp)
				return S{before.Said, before.Items, before.Notes}, err
			},
		}, func(s S) reply { return reply{Said: s.Words, Notes: s.Notes, Tips: tips(s.Items)} }})
	case removed:
		type S = removedTalk
		return serveVersion(ctx, j, &dies, version[S]{orchestrator.Definition[S]{
			Version: "2",
			Intents: recording(intent, func(s *S) (*[]string, *[]string, *[]addedItem) {
				return &s.Words, new([]string), &s.Items
			}),
			Migrate: func(ctx context.Context, cp checkpoint.Checkpoint) (S, error) {
				if cp.Version != "" {
					return orchestrator.Lenient[S](ctx, cp)
				}
				before, err := orchestrator.Strict[addedTalk](ctx, cp)
				return S{before.Said, before.Items}, err
			},
		}, func(s S) reply { return reply{Said: s.Words, Tips: tips(s.Items)} }})
	}
	return fmt.Errorf("no definition %q", j.Body)
}

// recording has the intents since the second deploy: listen decides that record follows.
func recording[S any](
	intent func(name, session, text string), fields func(*S) (said, notes *[]string, items *[]addedItem),
) orchestrator.Intents[S] {
	return orchestrator.Intents[S]{
		"listen": {
			Next: orchestrator.To("record"),
			Run: func(_ context.Context, t *orchestrator.Turn[S]) error {
				intent("listen", t.Session, t.Input.Text)
				said, _, _ := fields(&t.State)
				*said = append(*said, t.Input.Text)
				return nil
			},
		},
		"record": {
			Next: orchestrator.End,
			Run: func(_ context.Context, t *orchestrator.Turn[S]) error {
				intent("record", t.Session, t.Input.Text)
				if notes(t.Input.Text) {
					_, all, items := fields(&t.State)
					*all = append(*all, t.Input.Text)
					*items = append(*items, addedItem{ID: t.Input.Text, Tip: "tip for " + t.Input.Text})
				}
				return nil
			},
		},
	}
}

func tips(items []addedItem) (all []string) {
	for _, item := range items {
		all = append(all, item.Tip)
	}
	return all
}

func serveVersion[S any](ctx context.Context, j job, dies *request, d version[S]) error {
	w, err := j.Site.open(ctx)
	defer w.close()
	if err != nil {
		return err
	}
	d.Name, d.Iterate, d.First = "support", true, "listen"
	b, err := orchestrator.New(d.Definition, w.checkpoints,
		&orchestrator.Options{Snapshots: w.snapshots, Limits: limits, Logger: quiet})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		*dies = request{}
		if err := json.Unmarshal(lines.Bytes(), dies); err != nil {
			return err
		}
		if err := out.Encode(answer(ctx, b, *dies, d.show)); err != nil {
			return err
		}
	}
	return nil
}

// answer makes the reply to a request.
func answer[S any](ctx context.Context, b *orchestrator.Orchestrator[S], r request, show func(S) reply) (said reply) {
	var err error
	if r.Drain {
		said.Outcome, err = drainOne(ctx, b, r.Session)
	} else {
		var res *orchestrator.Result[S]
		if res, err = b.Execute(ctx, r.Session, orchestrator.Input{Text: r.Text, RequestID: r.ID}, nil); err == nil {
			return show(res.State)
		}
	}
	if err != nil {
		said.Drift, _ = errors.AsType[*orchestrator.DriftError](err)
		if said.Drift != nil {
			said.Drift.Err = nil // an error has no JSON
		}
		said.Err = err.Error()
	}
	return said
}

func drainOne(ctx context.Context, b bootdrain.Bot, session string) (string, error) {
	report, err := bootdrain.DrainInterrupted(ctx, b, &bootdrain.Options{
		Logger: quiet, Sessions: func(yield func(string, error) bool) { yield(session, nil) },
	})
	if err != nil || len(report.Runs) != 1 {
		return "", fmt.Errorf("%d runs: %w", len(report.Runs), err)
	}
	return report.Runs[0].Outcome, report.Runs[0].Err
}
