package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// PostgreSQL gives a document back longer than it took it. Even so, a run does not block its session: callers can go on
// with the run, end it and delete it.
func TestFatRun(t *testing.T) {
	if raceDetector {
		t.Skip("too slow under the race detector; make test runs it without")
	}
	backends(t, func(t *testing.T, w world) {
		skipUnchanged(t)
		t.Parallel()
		grows := strings.HasSuffix(t.Name(), "/postgres")
		for _, test := range []struct {
			what string
			do   func(t *testing.T, bot *Bot)
			kept string // the texts of the turns that follow
			twin bool   // it is for a soak: another case does nearly the same
		}{
			{"the next input", func(t *testing.T, bot *Bot) { execute(t, bot, Input{Text: "next"}) }, "fat next", false},
			{"the same input", func(t *testing.T, bot *Bot) {
				_, err := bot.Resume(t.Context(), "s", nil)
				if err != nil {
					t.Error(err)
				}
			}, "fat", true},
			{"a drain", func(t *testing.T, bot *Bot) {
				if what, err := bot.Recover(t.Context(), "s"); what != "settled" || err != nil {
					t.Errorf("%q: %v", what, err)
				}
			}, "fat", false},
			{"Abandon", func(t *testing.T, bot *Bot) {
				if ended, err := bot.Abandon(t.Context(), "s", ""); !ended || err != nil {
					t.Errorf("%v: %v", ended, err)
				}
			}, "", false},
			{"a failure", func(t *testing.T, bot *Bot) {
				_, err := w.Start(t, failing(), patient()).Resume(t.Context(), "s", nil)
				wantErr(t, err, errFails)
			}, "", false},
			{"a drain of a failure", func(t *testing.T, bot *Bot) {
				_, err := w.Start(t, failing(), patient()).Recover(t.Context(), "s")
				wantErr(t, err, errFails)
				if err := abandon(t, bot, "s"); err != nil {
					t.Error(err)
				}
			}, "", true},
			{"Delete", func(t *testing.T, bot *Bot) {}, "", false},
		} {
			switch {
			case test.what == "a drain", grows && (soak() || !test.twin), soak() && test.what == "Abandon":
			default:
				continue // where it comes back as it was, one or two are enough
			}
			t.Run(test.what, func(t *testing.T) {
				stored := w
				w := w
				w.Snapshots = fatRuns{stored.Snapshots}
				w.Crash(t, func(die func()) Def {
					d := echo()
					d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { die(); return nil }}
					return d
				}, Input{Text: "fat", Data: thin})
				bot := stored.Start(t, echo(), patient())
				test.do(t, bot)
				if got := strings.Join(turns(t, bot), " "); got != test.kept {
					t.Errorf("turns %q, want %q", got, test.kept)
				}
				if err := bot.Delete(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
				wantRuns(t, bot, 0)
			})
		}
	})
}

// The state of a session is as large as a bot may allow. Beside it is a document as large as a store takes. The session
// is forked, goes on, and is deleted. So is its fork. One whose state is larger than its bot allows is refused its next
// input, and is forked and deleted all the same.
func TestFatState(t *testing.T) {
	if raceDetector {
		t.Skip("too slow under the race detector; make test runs it without")
	}
	for _, test := range []struct {
		what    string
		state   json.RawMessage
		refused bool
	}{
		{"as large as a bot may allow", words(15 << 20), false},
		{"as large as a store takes", fat(), true},
	} {
		t.Run(test.what, func(t *testing.T) {
			backends(t, func(t *testing.T, w world) {
				skipBoth(t)
				if test.refused {
					skipUnchanged(t)
				}
				t.Parallel()
				forkFat(t, w, test.state, test.refused)
			})
		})
	}
}

// skipUnchanged skips stores that give a document back as they took it, as the ones in memory do.
func skipUnchanged(t *testing.T) {
	t.Helper()
	if kind := path.Base(t.Name()); !soak() && kind != "memory" && kind != "postgres" {
		t.Skip("only with HOLDFAST_SOAK=1: it gives the document back as it took it")
	}
}

// skipBoth skips the pair of two servers, which has each document in a store that has it in another pair too.
func skipBoth(t *testing.T) {
	t.Helper()
	if strings.HasSuffix(t.Name(), "/postgres_and_redis") && !soak() {
		t.Skip("only with HOLDFAST_SOAK=1")
	}
}

func forkFat(t *testing.T, w world, state json.RawMessage, refused bool) {
	stored := w
	w.Checkpoints = fatTurns{stored.Checkpoints, state}
	res := execute(t, w.Start(t, echo(), patient()), Input{Text: string(thin), Data: thin})
	o := patient()
	o.Limits.State = 15 << 20
	bot := stored.Start(t, echo(), o)
	if err := bot.Fork(t.Context(), "s", res.Turn, "fork"); err != nil {
		t.Error(err)
	}
	for _, session := range []string{"s", "fork"} {
		res, err := bot.Execute(t.Context(), session, Input{Text: "next"}, nil)
		if tooLarge := new(orchestrator.StateError); refused {
			if !errors.As(err, &tooLarge) {
				t.Errorf("%s: %v, want a StateError", session, err)
			}
		} else if err != nil {
			t.Errorf("%s: %v", session, err)
		} else if n := len(res.State.Said); n < 100_000 || res.State.Said[n-1] != "next" {
			t.Errorf("%s has lost its state: %d words", session, n)
		}
		if err := bot.Delete(t.Context(), session); err != nil {
			t.Errorf("%s: %v", session, err)
		}
	}
}

var errFails = errors.New("it fails")

func failing() Def {
	d := echo()
	d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { return errFails }}
	return d
}

// thin stands for fat in what a bot stores, so that no limit of the bot refuses it.
var (
	thin = json.RawMessage(`["thin"]`)
	fat  = sync.OnceValue(func() json.RawMessage { return words(16 << 20) })
)

// words is a list that is a little shorter than size. PostgreSQL gives it back longer, with a space after each comma.
func words(size int) json.RawMessage {
	doc := `[` + strings.Repeat(`"",`, 100_000)
	return json.RawMessage(doc + `"` + strings.Repeat("x", size-len(doc)-1000) + `"]`)
}

func fatten(doc json.RawMessage) json.RawMessage {
	return bytes.Replace(doc, thin, fat(), 1)
}

type fatRuns struct{ snapshot.Store }

func (f fatRuns) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	r.Payload = fatten(r.Payload)
	return f.Store.Begin(ctx, r)
}

type fatTurns struct {
	checkpoint.Store
	state json.RawMessage
}

func (f fatTurns) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	cp.State = bytes.Replace(cp.State, []byte(`"[\"thin\"]"`), bytes.Trim(f.state, "[]"), 1)
	cp.Payload = fatten(cp.Payload)
	return f.Store.Append(ctx, l, cp, o)
}
