package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/postgres"
)

// multiplySQL makes many sessions of one, in a table.
const multiplySQL = `
	INSERT INTO %[1]s SELECT another.* FROM %[1]s AS one, generate_series(1, $2::integer) AS i,
		jsonb_populate_record(one, jsonb_build_object('session', one.session || ' ' || i)) AS another
	WHERE one.session = $1::text`

// What a pass of the watch and of the sweep costs, counted at the server: as many statements beside 10,000 sessions
// that wait, with and without an Until, and beside 10,000 items of their inboxes, as with none, and a few pages more.
// What is due, and what was enqueued, is found beside them.
func TestPassBesideWaiting(t *testing.T) {
	t.Parallel()
	const waiting, more = 10_000, 60
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	db := postgres.New(p, nil)
	if err := db.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := asksFor(t, db)
	pass := func(settled, expired int) (statements, blocks int64) {
		t.Helper()
		statements, blocks = server.Statements(), server.Blocks()
		report, err := bootdrain.DrainInterrupted(t.Context(), a.Bot(), &bootdrain.Options{Logger: quiet})
		if err != nil || report.Settled != settled || report.Scanned != settled {
			t.Fatalf("%+v, %v", report, err)
		}
		if n, err := a.Expire(t.Context(), 100); err != nil || n != expired {
			t.Fatalf("%d sessions expired, %v", n, err)
		}
		return server.Statements() - statements, server.Blocks() - blocks
	}
	say := func(session, text string) {
		t.Helper()
		o, err := a.Say(t.Context(), session, agent.Text(text), nil)
		if err != nil || o.Status != agent.Paused {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	say("a", "bounded") // a tool that an hour bounds
	say("b", "photo")
	for range 2 { // the first pass prepares its statements
		pass(0, 0)
	}
	alone, few := pass(0, 0)
	for _, table := range []string{"holdfast_sessions", "holdfast_turns", "holdfast_labels"} {
		for _, session := range []string{"a", "b"} {
			pgtest.Exec(t, p, fmt.Sprintf(multiplySQL, table), session, waiting/2)
		}
	}
	pgtest.Exec(t, p, `
		INSERT INTO holdfast_inbox (orchestrator, session, kind, id, posted_by, shown, at, data)
		SELECT 'asks', 'a ' || i, 'stop', 'r', 'ada', '', clock_timestamp(), '{}' FROM generate_series(1, $1::integer) i`,
		waiting)
	for _, known := range []string{"nothing", "statistics"} {
		p.Reset() // plans are made anew
		pass(0, 0)
		pass(0, 0)
		statements, blocks := pass(0, 0)
		t.Logf("with %s known: %d statements and %d blocks, and %d and %d without them", known, statements, blocks,
			alone, few)
		if statements != alone || blocks > few+more {
			t.Errorf("with %s known it is more", known)
		}
		pgtest.Exec(t, p, "ANALYZE")
	}
	say("now", "at once")
	later := a.Input(orchestrator.Input{RequestID: "r", Text: "photo"})
	if err := a.Bot().Enqueue(t.Context(), "later", later); err != nil {
		t.Fatal(err)
	}
	statements, blocks := pass(1, 1)
	t.Logf("one that is due and one that was enqueued: %d statements and %d blocks", statements, blocks)
	if blocks > few+20*more {
		t.Errorf("one that is due and one that was enqueued touch %d blocks", blocks)
	}
	if s, _, err := a.Get(t.Context(), "now"); err != nil || s.Status != agent.Completed {
		t.Errorf("%+v, %v", s, err)
	}
}

// asksFor returns an agent whose model calls the tool that a user names.
func asksFor(t *testing.T, db *postgres.DB) *agent.Agent[struct{}] {
	t.Helper()
	model := agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
		m := message.Assistant("done")
		if last := r.Said[len(r.Said)-1]; last.Role == message.RoleUser {
			name := map[string]string{"bounded": "bounded", "photo": "photo", "at once": "at_once"}[last.Blocks[0].Text]
			m.Blocks = []message.Block{message.ToolCall("c", name, json.RawMessage(`{}`))}
		}
		return agent.Reply{Message: m}, nil
	})
	tool := func(name string, until time.Duration) agent.Tool {
		tool := agent.ClientTool[struct{}](name, "")
		tool.Until = until
		return tool
	}
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "asks", Model: model,
		Tools: []agent.Tool{tool("bounded", time.Hour), tool("photo", 0), tool("at_once", time.Nanosecond)},
	}, agent.On(db), &orchestrator.Options{
		Logger: quiet, Inbox: db.Inbox(),
		Limits: orchestrator.Limits{DeadAfter: -1}, // each process beats once a second, whatever there is to do
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
