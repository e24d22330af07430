package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/transcript"
)

// A chat is what is said in a turn: by the user, by the model with its call, by the tool, and by the model at the end.
type chat [4]string

// chatBytes are how long its parts are.
var chatBytes = [len(chat{})]int{800, 200, 800, 800}

// chats returns turns that are all different. They are a prime number, so that the turns of one session do not repeat:
// the server would compress what it has just seen.
func chats() []chat {
	words, random := strings.Fields(vocabulary), rand.New(rand.NewPCG(3, 4))
	all := make([]chat, 199)
	for i := range all {
		for part, size := range chatBytes {
			all[i][part] = text(size, words, random)
		}
	}
	return all
}

// messages returns a turn as it is said.
func (c chat) messages() []message.Message {
	call := message.Assistant(c[1])
	call.Blocks = append(call.Blocks, message.ToolCall("c", "lookup", json.RawMessage(`{"order":"A-1042"}`)))
	result := message.Message{Role: "tool", Blocks: []message.Block{message.ToolResult("c", c[2], false)}}
	return []message.Message{message.User(c[0]), call, result, message.Assistant(c[3])}
}

// window is how many messages an agent sees of a session, unless it sees all.
const window = 40

// A talker is an agent whose turns are of two replies and one tool. Its sessions begin with so many messages.
type talker struct {
	agent    *agent.Agent[struct{}]
	said     transcript.Store
	messages int
	chats    []chat
	sessions int
	apart    bool                         // every other turn of the template is missing
	seeds    func(*agent.State[struct{}]) // changes the state that a session begins with; may be nil
	thinks   func()                       // before the first reply of a turn; may be nil
	born     atomic.Int64                 // how often its sessions were made
	next     atomic.Int64
}

const (
	botOfTalk = "talk"
	seedText  = "seed"
)

func newTalker(st agent.Stores, messages, window, sessions int, effect bool) (*talker, error) {
	t := &talker{said: st.Transcript, messages: messages, chats: chats(), sessions: sessions}
	name := fmt.Sprintf("%s-%d-%d-%t", botOfTalk, messages, window, effect)
	type args struct {
		Order string `json:"order"`
	}
	lookup := func() (string, error) { return t.words()[2], nil }
	tool := agent.Read("lookup", "looks up an order", func(context.Context, args) (string, error) { return lookup() })
	if effect {
		tool = agent.Effect[args, string]{
			Name: "lookup", Class: ledger.Idempotent,
			Run: func(context.Context, string, args) (string, error) { return lookup() },
		}.Tool()
	}
	var err error
	t.agent, err = agent.New(agent.Definition[struct{}]{
		Name: name, Window: window, Tools: []agent.Tool{tool}, Model: agent.ModelFunc(t.reply), Begin: t.begin,
	}, st, &orchestrator.Options{Logger: silent})
	return t, err
}

// agentStores returns the stores that an agent needs.
func agentStores(pool *pgxpool.Pool) agent.Stores {
	db := postgres.New(pool, &postgres.Options{Logger: silent})
	return agent.Stores{
		Checkpoints: db.Checkpoints(), Snapshots: db.Snapshots(), Transcript: db.Transcripts(), Ledger: db.Ledger(),
	}
}

func (t *talker) words() chat { return t.chats[int(t.next.Add(1))%len(t.chats)] }

func (t *talker) reply(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
	all := t.words().messages()
	m := all[3]
	if r.Said[len(r.Said)-1].Role == message.RoleUser {
		m = all[1]
		if t.thinks != nil {
			t.thinks()
		}
	}
	return agent.Reply{Message: m, Usage: orchestrator.Usage{Input: 1000, Output: 100, Cost: 0.01}}, nil
}

// begin gives a new session what was said in the template.
func (t *talker) begin(_ context.Context, turn *agent.Turn[struct{}]) error {
	if turn.Input.Text == seedText {
		turn.State.Said, turn.State.Tail, turn.State.Phase = t.spans(), nil, ""
		if t.seeds != nil {
			t.seeds(&turn.State)
		}
	}
	return nil
}

func (t *talker) spans() (all []transcript.Span) {
	if !t.apart {
		return []transcript.Span{{From: 1, Through: int64(t.messages)}}
	}
	for first := int64(1); first < int64(t.messages); first += 8 {
		all = append(all, transcript.Span{From: first, Through: first + 3})
	}
	return all
}

func (t *talker) key(session string) transcript.Key {
	return transcript.Key{Orchestrator: t.agent.Name(), Session: session}
}

// turnsMoved is how many turns move to the transcript at once: as many as fill 8 KiB.
const turnsMoved = 3

// write writes the template.
func (t *talker) write(ctx context.Context) error {
	var all []message.Message
	for i := range t.messages / 4 {
		all = append(all, t.chats[i%len(t.chats)].messages()...)
	}
	n := 0
	for entry := range slices.Chunk(all, 4*turnsMoved) {
		n++
		if _, err := t.said.Append(ctx, t.key("template"), fmt.Sprint(n), entry); err != nil {
			return err
		}
	}
	return nil
}

// renew makes new sessions, and plays a turn of each. So every round begins with as many messages.
func (t *talker) renew(ctx context.Context) error {
	if err := t.create(ctx); err != nil {
		return err
	}
	return inParallel(t.sessions, func(i int) error { return t.play(ctx, sessionName(i)) })
}

// create makes new sessions.
func (t *talker) create(ctx context.Context) error {
	if t.born.Load() == 0 {
		if err := t.write(ctx); err != nil {
			return err
		}
	}
	t.born.Add(1)
	return inParallel(t.sessions, func(i int) error {
		session := t.session(sessionName(i))
		err := t.said.Copy(ctx, t.key("template"), t.key(session), t.spans())
		if err == nil {
			_, err = t.agent.Say(ctx, session, agent.Text(seedText), nil)
		}
		return err
	})
}

func (t *talker) session(name string) string { return fmt.Sprintf("%d/%s", t.born.Load(), name) }

func (t *talker) play(ctx context.Context, name string) error {
	o, err := t.agent.Say(ctx, t.session(name), agent.Text(t.words()[0]), nil)
	if err == nil && o.Status != agent.Completed {
		err = fmt.Errorf("the turn is %s: %s", o.Status, o.Reason)
	}
	return err
}

// agentsPostgres measures turns of an agent in sessions of different lengths.
func (b *bench) agentsPostgres(ctx context.Context) error {
	return b.withWorkflows(ctx, testenv.Options{}, func(pool *pgxpool.Pool, _ *postgres.DB) error {
		st := agentStores(pool)
		short, err1 := newTalker(st, 100, window, b.talks, false)
		long, err2 := newTalker(st, 1000, window, b.talks, false)
		all, err3 := newTalker(st, 1000, 0, b.talks, false)
		if err := errors.Join(err1, err2, err3, b.describe(ctx, pool, "")); err != nil {
			return err
		}
		rota := newRota(b.talks, 1)
		err := b.compete(ctx, contest{
			what: fmt.Sprintf("PostgreSQL, agent, window of %d", window), workers: 1,
			reference: subject{name: "at 100 messages", op: rota.on(short.play)},
			subjects:  []subject{{name: "at 1,000 messages", op: rota.on(long.play), goal: atLeast(0.9)}},
			between:   renewAll(pool, short, long),
		})
		if err != nil {
			return err
		}
		return b.compete(ctx, contest{
			what: "PostgreSQL, agent, 1,000 messages", workers: 1,
			reference: subject{name: fmt.Sprintf("window of %d", window), op: rota.on(long.play)},
			subjects:  []subject{{name: "all of them", op: rota.on(all.play), goal: atLeast(0.5)}},
			between:   renewAll(pool, long, all),
		})
	})
}

// renewAll does the work of autovacuum, and makes new sessions.
func renewAll(pool *pgxpool.Pool, all ...*talker) func(context.Context) error {
	return func(ctx context.Context) error {
		if _, err := pool.Exec(ctx, "VACUUM (ANALYZE)"); err != nil {
			return err
		}
		for _, t := range all {
			if err := t.renew(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// agentsWrites measures what a turn takes of the server's disk and log, and how many statements it is. The server
// flushes its log only for those who wait.
func (b *bench) agentsWrites(ctx context.Context) error {
	o := testenv.Options{Settings: map[string]string{
		"autovacuum": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB",
	}}
	return b.withWorkflows(ctx, o, func(pool *pgxpool.Pool, _ *postgres.DB) error {
		logged := make(map[int][]float64)
		for _, c := range []struct {
			messages            int
			effect              bool
			commits, statements float64
		}{{8, true, 4, 9}, {8, false, 4, 9}, {100, false, 4, 9}, {1000, false, 4, 9}} {
			what := "a turn of two replies and a tool"
			if c.effect {
				what += " with an effect"
			}
			what = fmt.Sprintf("PostgreSQL, agent, %d messages: %s", c.messages, what)
			commits, statements, bytes, err := b.weighTurns(ctx, pool, c.messages, c.effect)
			if err != nil {
				return err
			}
			b.count(what, keeping(c.commits, "commits"), commits...)
			b.count(what, keeping(c.statements, "statements"), statements...)
			b.count(what, keeping(0, "bytes of the log"), bytes...)
			logged[c.messages] = bytes
		}
		var ratios []float64
		for i, n := range logged[1000] {
			ratios = append(ratios, n/logged[8][i])
		}
		b.count("PostgreSQL, agent, 1,000 messages against 8: a turn", keeping(1.2, "× the log"), ratios...)
		return nil
	})
}

// count adds the result of counts.
func (b *bench) count(what string, g goal, counts ...float64) {
	r := result{what: what, reference: "–", workers: 1, goal: g}
	for _, n := range counts {
		r.samples = append(r.samples, sample{amount: n})
	}
	b.add(r)
}

// weighTurns counts, for one turn, the commits and the statements if it moves nothing to the transcript, and the bytes
// if every third turn moves what was said. A checkpoint comes first, and each page is written once before, so that few
// pages are logged whole.
func (b *bench) weighTurns(
	ctx context.Context, pool *pgxpool.Pool, messages int, effect bool,
) (commits, statements, bytes []float64, err error) {
	asked := new(queries)
	config := pool.Config()
	config.ConnConfig.Tracer, config.ConnConfig.RuntimeParams["application_name"] = asked, botOfTalk
	traced, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, nil, err
	}
	defer traced.Close()
	t, err := newTalker(agentStores(traced), messages, window, b.talks, effect)
	if err != nil {
		return nil, nil, nil, err
	}
	laps := func(n int) (each burden, err error) {
		before, err := written(ctx, pool, traced)
		asked.Store(0)
		for i := range n * t.sessions {
			if err == nil {
				err = t.play(ctx, sessionName(i%t.sessions))
			}
		}
		if err != nil {
			return each, err
		}
		said, turns := float64(asked.Load()), float64(n*t.sessions)
		after, err := written(ctx, pool, traced)
		return burden{(after.commits - before.commits) / turns, said / turns, (after.bytes - before.bytes) / turns}, err
	}
	for range min(b.rounds, 3) {
		err := t.renew(ctx)
		if err == nil {
			_, err = pool.Exec(ctx, "CHECKPOINT")
		}
		if err != nil {
			return nil, nil, nil, err
		}
		one, err1 := laps(1)
		many, err2 := laps(4 * turnsMoved)
		if err := errors.Join(err1, err2); err != nil {
			return nil, nil, nil, err
		}
		commits, statements = append(commits, one.commits), append(statements, one.statements)
		bytes = append(bytes, many.bytes)
	}
	return commits, statements, bytes, nil
}

// A burden is what turns take of a server.
type burden struct{ commits, statements, bytes float64 }

// written returns how often a server has waited for its disk, and how much it has logged. The connections of traced
// tell that at their end.
func written(ctx context.Context, pool, traced *pgxpool.Pool) (all burden, err error) {
	for open := true; open && err == nil; {
		traced.Reset()
		const connected = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1)`
		err = pool.QueryRow(ctx, connected, botOfTalk).Scan(&open)
	}
	if err == nil {
		err = pool.QueryRow(ctx, `
			SELECT (pg_current_wal_insert_lsn() - '0/0')::float8, (SELECT wal_sync FROM pg_stat_wal)::float8`).
			Scan(&all.bytes, &all.commits)
	}
	return all, err
}

// TraceBatchStart implements pgx.BatchTracer.
func (q *queries) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	q.Add(int64(d.Batch.Len()))
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*queries) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (*queries) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
