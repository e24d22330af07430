package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/turnlog"
)

// looksUp calls one tool, and then says something.
func looksUp(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
	m := message.Assistant("done")
	if r.Said[len(r.Said)-1].Role == message.RoleUser {
		m.Blocks = []message.Block{message.ToolCall("c", "lookup", json.RawMessage(`{}`))}
	}
	return agent.Reply{Message: m, Usage: orchestrator.Usage{Cost: 0.01}}, nil
}

// What a turn of two replies and a tool costs. Each save is a durable commit: of the input, the first reply, the
// result, and the end with the second reply. The claim is the other statements, and waits for no disk. An effect rides
// in the saves. What was said moves in one commit more, once it is 8 KiB, and a process that has not
// moved it itself reads it once.
func TestTurnCosts(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Durable: true, Settings: pgtest.Lazy()})
	p := pgtest.PoolOn(t, server.URL)
	db := postgres.New(p, nil)
	if err := db.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	lookup := func(context.Context, struct{}) (string, error) { return "found", nil }
	reads := agent.Read("lookup", "", lookup)
	acts := agent.Effect[struct{}, string]{
		Name: "lookup", Class: ledger.Idempotent,
		Run: func(ctx context.Context, _ string, in struct{}) (string, error) { return lookup(ctx, in) },
	}.Tool()
	const much = 9 << 10
	for name, c := range map[string]struct {
		tool                agent.Tool
		before, now         int // bytes that the user says
		statements, commits int64
	}{
		"a pure tool":      {reads, 1, 1, 6, 4},
		"an effect":        {acts, 1, 1, 6, 4},
		"a move":           {reads, 1, much, 7, 5},
		"after a move":     {reads, much, 1, 6, 4},
		"another process":  {reads, much, 1, 7, 4},
		"one after a move": {acts, much, 1, 6, 4},
		"with a turn log":  {acts, 1, 1, 8, 6}, // and the beginning, and the last reply
	} {
		t.Run(name, func(t *testing.T) {
			var log turnlog.Log
			if name == "with a turn log" {
				log = db.TurnLog()
			}
			a := countedBy(t, db, log, c.tool, looksUp)
			say := func(session string, n int) error {
				_, err := a.Say(t.Context(), session, agent.Text(strings.Repeat("x", n)), nil)
				return err
			}
			const turns = 10
			for i := range turns {
				if err := say(fmt.Sprint(name, i), c.before); err != nil {
					t.Fatal(err)
				}
			}
			if name == "another process" {
				a = countedBy(t, db, log, c.tool, looksUp)
			}
			var statements, commits []int64
			for i := range turns {
				before, was := flushes(t, p), server.Statements()
				if err := say(fmt.Sprint(name, i), c.now); err != nil {
					t.Fatal(err)
				}
				statements = append(statements, server.Statements()-was)
				commits = append(commits, flushes(t, p)-before)
			}
			wantCosts(t, "statements", statements, c.statements)
			wantCommits(t, commits, c.commits)
		})
	}
}

func counted(t *testing.T, db *postgres.DB, tool agent.Tool) *agent.Agent[struct{}] {
	t.Helper()
	return countedBy(t, db, nil, tool, looksUp)
}

func countedBy(
	t *testing.T, db *postgres.DB, log turnlog.Log, tool agent.Tool, model agent.ModelFunc,
) *agent.Agent[struct{}] {
	t.Helper()
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "support", Model: model, Tools: []agent.Tool{tool},
	}, agent.Stores{
		Checkpoints: db.Checkpoints(), Snapshots: db.Snapshots(), Transcript: db.Transcripts(), Ledger: db.Ledger(),
		TurnLog: log,
	}, &orchestrator.Options{
		Logger:  slog.New(slog.DiscardHandler),
		Effects: orchestrator.Effects{Linger: time.Minute},
		Limits:  orchestrator.Limits{DeadAfter: -1}, // each process beats once a second, whatever there is to do
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Bot().Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return a
}

// wantCosts checks what turns have cost that are alike: none is cheaper, and one is not dearer. One that takes long
// renews its lease besides.
func wantCosts(t *testing.T, what string, got []int64, want int64) {
	t.Helper()
	if least := slices.Min(got); least != want {
		t.Errorf("a turn is %d %s, want %d: %d", least, what, want, got)
	}
}

// wantCommits checks how often the server has waited for its disk in turns that are alike. Now and then it does so for
// itself, before a commit or besides.
func wantCommits(t *testing.T, got []int64, want int64) {
	t.Helper()
	fewer := 0
	for _, n := range got {
		if n < want {
			fewer++
		}
	}
	if slices.Max(got) > 0 && (fewer > len(got)/2 || !slices.Contains(got, want)) {
		t.Errorf("a turn is so many commits, want %d: %d", want, got)
	}
}

// flushes returns how often a server has waited for its disk, or -1 if it does not count that there. A connection tells
// it at its end.
func flushes(t *testing.T, p *pgxpool.Pool) int64 {
	t.Helper()
	if pgtest.Value[int](t, p, `SELECT count(*) FROM pg_attribute
		WHERE attrelid = to_regclass('pg_stat_wal') AND attname = 'wal_sync'`) == 0 {
		return -1
	}
	const connected = `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'`
	for p.Reset(); pgtest.Value[int](t, p, connected) > 1; p.Reset() {
		<-time.After(10 * time.Millisecond)
	}
	return pgtest.Value[int64](t, p, "SELECT wal_sync FROM pg_stat_wal")
}

// What an answer costs until the model is asked: a save of the answer and one of the result, each a durable commit. The
// claim is the first statement, and three read: what is in flight, the newest turn, and a turn with this answer. A tool
// that has waited for an approval runs between the saves. For an effect, what runs is saved before it, with its Issue.
func TestAnswerCosts(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Durable: true, Settings: pgtest.Lazy()})
	p := pgtest.PoolOn(t, server.URL)
	db := postgres.New(p, nil)
	if err := db.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	lookup := func(context.Context, struct{}) (string, error) { return "found", nil }
	reads := agent.Read("lookup", "", lookup)
	reads.Wait = agent.Approval
	acts := agent.Effect[struct{}, string]{
		Name: "lookup", Class: ledger.Idempotent, Approve: func(struct{}) bool { return true },
		Run: func(ctx context.Context, _ string, in struct{}) (string, error) { return lookup(ctx, in) },
	}.Tool()
	for name, c := range map[string]struct {
		tool                agent.Tool
		answer              agent.Answer
		statements, commits int64
	}{
		"a client's result":           {agent.ClientTool[struct{}]("lookup", ""), agent.Done("found"), 6, 2},
		"the approval of a pure tool": {reads, agent.Approve("ann"), 6, 2},
		"the approval of an effect":   {acts, agent.Approve("ann"), 7, 3},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{})
			model := func(ctx context.Context, r agent.Request, emit func(string)) (agent.Reply, error) {
				if r.Said[len(r.Said)-1].Role != message.RoleUser {
					asked <- struct{}{}
					asked <- struct{}{}
				}
				return looksUp(ctx, r, emit)
			}
			a := countedBy(t, db, nil, c.tool, model)
			const turns = 8
			for i := range turns {
				o, err := a.Say(t.Context(), fmt.Sprint(name, i), agent.Text("x"), nil)
				if err != nil || o.Status != agent.Paused {
					t.Fatalf("%+v, %v", o, err)
				}
			}
			var statements, commits []int64
			for i := range turns {
				n, syncs := untilAsked(t, server, p, asked, func() error {
					_, err := a.Answer(t.Context(), fmt.Sprint(name, i), "c", c.answer)
					return err
				})
				statements, commits = append(statements, n), append(commits, syncs)
			}
			wantCosts(t, "statements until the model is asked", statements, c.statements)
			wantCommits(t, commits, c.commits)
		})
	}
}

// untilAsked counts the statements and the commits of an answer, from its beginning until the model sends to asked. The
// second time that the model sends, it goes on.
func untilAsked(
	t *testing.T, server *testenv.Server, p *pgxpool.Pool, asked <-chan struct{}, answer func() error,
) (statements, commits int64) {
	t.Helper()
	ended := make(chan error, 1)
	commits, statements = -flushes(t, p), -server.Statements()
	go func() { ended <- answer() }()
	select {
	case <-asked:
	case err := <-ended:
		t.Fatal("the model was not asked:", err)
	}
	statements += server.Statements()
	commits += flushes(t, p)
	<-asked
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return statements, commits
}

// A branch is as many statements for 4,096 messages as for 10, and three more for each 4,096 that follow.
func TestBranchCosts(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true})
	db := postgres.New(pgtest.PoolOn(t, server.URL), nil)
	if err := db.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := counted(t, db, agent.ClientTool[struct{}]("lookup", ""))
	statements := func(messages int) (least int64) {
		from := fmt.Sprint("of ", messages)
		said := make([]message.Message, messages)
		for i := range said {
			if said[i] = message.User("x"); i%2 == 1 {
				said[i] = message.Assistant("y")
			}
		}
		if _, err := a.Import(t.Context(), from, said, struct{}{}, agent.Labels{}); err != nil {
			t.Fatal(err)
		}
		least = math.MaxInt64 // a process that is slow renews its lease besides
		for i := range 5 {
			before := server.Statements()
			if err := a.Branch(t.Context(), from, 1, fmt.Sprint(from, " branch ", i)); err != nil {
				t.Fatal(err)
			}
			least = min(least, server.Statements()-before)
		}
		return least
	}
	few := statements(10)
	t.Logf("a branch of 10 messages is %d statements", few)
	for messages, more := range map[int]int64{4096: 0, 10_000: 6} {
		if n := statements(messages); n != few+more {
			t.Errorf("a branch of %d messages is %d statements, want %d", messages, n, few+more)
		}
	}
}
