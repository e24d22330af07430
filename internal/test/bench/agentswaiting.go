package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/postgres"
)

// A desk is an agent whose model calls a tool that somebody else runs, on tables of its own.
type desk struct {
	agent  *agent.Agent[struct{}]
	pool   *pgxpool.Pool
	prefix string
}

// What a user says at a desk, and so the sessions that are multiplied.
const (
	boundedCall = "bounded" // the call waits for an hour
	openCall    = "open"    // it waits for ever
	noCall      = "none"
)

func newDesk(ctx context.Context, pool *pgxpool.Pool, prefix string) (desk, error) {
	db := postgres.New(pool, &postgres.Options{Prefix: prefix, Logger: silent})
	for _, s := range db.Schemas() {
		if _, err := pool.Exec(ctx, s.Schema()); err != nil {
			return desk{}, err
		}
	}
	bounded := agent.ClientTool[struct{}](boundedCall, "")
	bounded.Until = time.Hour
	model := func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
		m := message.Assistant("done")
		if wanted := r.Said[len(r.Said)-1].Blocks[0].Text; wanted != noCall {
			m.Blocks = []message.Block{message.ToolCall("c", wanted, json.RawMessage(`{}`))}
		}
		return agent.Reply{Message: m}, nil
	}
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "desk", Model: agent.ModelFunc(model),
		Tools: []agent.Tool{bounded, agent.ClientTool[struct{}](openCall, "")},
	}, agent.On(db), &orchestrator.Options{Logger: silent, Inbox: db.Inbox()})
	return desk{a, pool, prefix}, err
}

// say plays the turn of a session.
func (d desk) say(ctx context.Context, session, text string) error {
	o, err := d.agent.Say(ctx, session, agent.Text(text), nil)
	if err == nil && o.Status != agent.Paused && text != noCall {
		err = fmt.Errorf("session %q is %s, and does not wait", session, o.Status)
	}
	return err
}

// populate makes so many sessions that wait, half of them for an hour, and others of a user, which do not wait. One of
// each kind is played, and the others are copies of its rows. Those that do not wait have no turns: nobody asks for
// them.
func (d desk) populate(ctx context.Context, waiting, others int) error {
	for _, kind := range []struct {
		said   string
		copies int
		tables []string
	}{
		{boundedCall, waiting/2 - 1, []string{"sessions", "turns", "labels"}},
		{openCall, waiting - waiting/2 - 1, []string{"sessions", "turns", "labels"}},
		{noCall, others - 1, []string{"sessions", "labels"}},
	} {
		err := d.say(ctx, kind.said, kind.said)
		if kind.said == noCall && err == nil {
			_, err = d.agent.Update(ctx, noCall, 0, func(s *agent.State[struct{}]) error {
				s.User = "ann"
				return nil
			})
		}
		for _, table := range kind.tables {
			if err == nil {
				_, err = d.pool.Exec(ctx, strings.ReplaceAll(`
					INSERT INTO {table}
					SELECT another.* FROM {table} AS one, generate_series(1, $2::integer) AS i, jsonb_populate_record(
						one, jsonb_build_object('session', one.session || ' ' || lpad(i::text, 7, '0'))) AS another
					WHERE one.session = $1::text`, "{table}", d.prefix+table), kind.said, kind.copies)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind.said, err)
		}
	}
	_, err := d.pool.Exec(ctx, "VACUUM (ANALYZE)")
	return err
}

// drain is one pass of the watch. It finds nothing to do.
func (d desk) drain(ctx context.Context, _ int) error {
	report, err := bootdrain.DrainInterrupted(ctx, d.agent.Bot(), &bootdrain.Options{Logger: silent})
	if err == nil && report.Scanned != 0 {
		err = fmt.Errorf("the drain has found %d sessions", report.Scanned)
	}
	return err
}

// expire is one pass of the sweep for answers that have not come. All may come.
func (d desk) expire(ctx context.Context, _ int) error {
	n, err := d.agent.Expire(ctx, 100)
	if err == nil && n != 0 {
		err = fmt.Errorf("%d sessions have expired", n)
	}
	return err
}

// agentsWaiting measures what sessions that wait cost those who do not ask for them, and how fast they are found.
func (b *bench) agentsWaiting(ctx context.Context) error {
	o := testenv.Options{Settings: map[string]string{"shared_buffers": b.buffers, "max_wal_size": "256MB"}}
	return b.withPostgres(ctx, o, func(pool *pgxpool.Pool, _ *pgcheckpoint.Store) error {
		without, err1 := newDesk(ctx, pool, "without_")
		beside, err2 := newDesk(ctx, pool, "beside_")
		if err := errors.Join(err1, err2, b.describe(ctx, pool, "")); err != nil {
			return err
		}
		if err := b.weighWaiting(ctx, beside); err != nil {
			return err
		}
		if err := beside.populate(ctx, b.paused, b.others); err != nil {
			return err
		}
		for _, pass := range []struct {
			what string
			op   func(desk) operation
			goal goal
		}{
			{"a pass of bootdrain", func(d desk) operation { return d.drain }, atMost(1.1)},
			{"a pass for answers that have not come", func(d desk) operation { return d.expire }, goal{kind: cost}},
		} {
			err := b.compete(ctx, contest{
				what: "PostgreSQL, agent, " + pass.what, workers: 1,
				reference: subject{name: "the same without", op: pass.op(without)},
				subjects: []subject{{
					name: fmt.Sprintf("beside %d sessions that wait", b.paused), op: pass.op(beside), goal: pass.goal,
				}},
			})
			if err != nil {
				return err
			}
		}
		return b.compete(ctx, contest{
			what: fmt.Sprintf("PostgreSQL, agent, %d of %d sessions wait", b.paused, b.paused+b.others), workers: 1,
			reference: subject{name: "SELECT … LIMIT", op: beside.selectPage},
			subjects: []subject{
				{name: "the names of the first page", op: beside.names, goal: below(10 * time.Millisecond)},
				{name: "Waiting, the first page", op: beside.firstPage, goal: below(10 * time.Millisecond)},
			},
		})
	})
}

// weighWaiting measures what sessions that have begun to wait leave in a process.
func (b *bench) weighWaiting(ctx context.Context, d desk) error {
	begin := func(round string) error {
		return inParallel(b.loops, func(i int) error { return d.say(ctx, round+sessionName(i), openCall) })
	}
	if err := begin("a "); err != nil { // after that, what each connection keeps is there
		return err
	}
	heap0, goroutines0 := kept()
	if err := begin("b "); err != nil {
		return err
	}
	heap, goroutines := kept()
	for deadline := time.Now().Add(10 * time.Second); goroutines > goroutines0 && time.Now().Before(deadline); {
		heap, goroutines = kept() // those that end do it soon
	}
	var leases int
	err := d.pool.QueryRow(ctx, "SELECT count(*) FROM "+d.prefix+"sessions WHERE lease_until > clock_timestamp()").
		Scan(&leases)
	if err == nil && leases != 0 {
		err = fmt.Errorf("%d sessions that wait have a lease", leases)
	}
	what := fmt.Sprintf("PostgreSQL, agent, %d sessions: waiting", b.loops)
	b.count(what, keeping(1, "KiB of heap each"), max(heap-heap0, 0)/1024/float64(b.loops))
	b.count(what, keeping(0.01, "goroutines each"), max(goroutines-goroutines0, 0)/float64(b.loops))
	return err
}

// selectPage reads the names of a page, and looks nothing else up.
func (d desk) selectPage(ctx context.Context, _ int) error {
	rows, err := d.pool.Query(ctx, "SELECT session FROM "+d.prefix+`labels
		WHERE orchestrator = $1 AND label = $2 ORDER BY session LIMIT $3`, d.agent.Name(), agent.LabelWaiting, page)
	for err == nil && rows.Next() {
	}
	if err == nil {
		err = rows.Err()
	}
	return err
}

// names lists the sessions of a page.
func (d desk) names(ctx context.Context, _ int) error {
	n, err := count(d.agent.Sessions(ctx, checkpoint.SessionQuery{Label: agent.LabelWaiting, Limit: page}))
	if err == nil && n == 0 {
		err = errors.New("no session waits")
	}
	return err
}

// firstPage lists the sessions of a page with what they wait for.
func (d desk) firstPage(ctx context.Context, _ int) error {
	n := 0
	for o, err := range d.agent.Waiting(ctx, "") {
		switch {
		case err != nil:
			return err
		case len(o.Pending) != 1:
			return fmt.Errorf("session %q waits for %d calls", o.Session, len(o.Pending))
		}
		if n++; n == page {
			return nil
		}
	}
	return nil
}
