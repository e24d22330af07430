package workflow_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/workflow"
)

// An ear hears the notes of a store.
type ear struct {
	t *testing.T
	workflow.Listener
	notes chan workflow.Note
	leave func() // returns when Listen has
}

func listen(t *testing.T, db *postgres.DB) ear {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	e := ear{t, db.Workflows().(workflow.Listener), make(chan workflow.Note, 1000), nil}
	left := make(chan struct{})
	go func() {
		defer close(left)
		e.Listen(ctx, func(n workflow.Note) { e.notes <- n })
	}()
	e.leave = func() {
		stop()
		<-left
	}
	t.Cleanup(e.leave)
	return e
}

// next returns the next note.
func (e ear) next() workflow.Note {
	e.t.Helper()
	select {
	case n := <-e.notes:
		return n
	case <-time.After(time.Minute):
		e.t.Fatal("no note comes")
		panic("unreachable")
	}
}

func (e ear) want(all ...workflow.Note) {
	e.t.Helper()
	for _, want := range all {
		if got := e.next(); got != want {
			e.t.Fatalf("heard %+v, want %+v", got, want)
		}
	}
}

// connects is what a listener is told when its connection listens: anything may have happened before.
var connects = []workflow.Note{{}, {Beats: true}}

// schema returns the prefix of the tables with their schema. Schemas of one database share a channel if the prefix
// names none of them.
func schema(t *testing.T, p *pgxpool.Pool) string {
	t.Helper()
	return pgtest.Value[string](t, p, "SELECT current_schema()") + ".holdfast_"
}

// listening returns a database whose engines hear others, each by a connection with the name.
func listening(t *testing.T, p *pgxpool.Pool, name string) *postgres.DB {
	t.Helper()
	return postgres.New(p, &postgres.Options{
		Prefix: schema(t, p),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Listen: func(ctx context.Context) (*pgx.Conn, error) {
			c := p.Config().ConnConfig.Copy()
			c.RuntimeParams["application_name"] = name
			return pgx.ConnectConfig(ctx, c)
		},
	})
}

// A process hears what it does itself once, and what others do. Without a connection it hears only itself.
func TestPostgresListen(t *testing.T) {
	t.Parallel()
	p := pgtest.Pool(t)
	one, two := listening(t, p, "one"), listening(t, p, "two")
	deaf := postgres.New(p, &postgres.Options{Prefix: schema(t, p)})
	hears, others, alone := listen(t, one), listen(t, two), listen(t, deaf)
	hears.want(connects...)
	others.want(connects...)
	if !hears.Hears() || !others.Hears() || alone.Hears() {
		t.Errorf("they hear %t, %t and %t", hears.Hears(), others.Hears(), alone.Hears())
	}
	told := func(n workflow.Note, do func() error) {
		t.Helper()
		check(t, do())
		hears.want(n)
		others.want(n)
	}
	c := caller{t, one.Workflows()}
	told(workflow.Note{}, c.start(keyed("r", "")))
	told(workflow.Note{}, c.send(signalTo("r", "1")))
	unwanted := signalTo("r", "2")
	unwanted.Wanted = true
	check(t, c.send(unwanted)())
	check(t, c.start(keyed("r", ""))()) // it is known
	told(workflow.Note{Run: "r"}, c.send(workflow.Message{Run: "r", Action: workflow.Pause}))
	told(workflow.Note{}, c.send(workflow.Message{Run: "r", Action: workflow.Resume}))
	told(workflow.Note{Run: "r"}, c.send(workflow.Message{Run: "r", Action: workflow.Cancel}))
	told(workflow.Note{Beats: true}, func() error { hears.Tell(workflow.Note{Beats: true}); return nil })

	for _, commits := range []bool{false, true} {
		tx, err := p.Begin(t.Context())
		check(t, err)
		_, err = one.In(tx).Start(t.Context(), []workflow.NewRun{keyed("in", "")})
		check(t, err)
		if !commits {
			check(t, tx.Rollback(t.Context()))
			continue
		}
		told(workflow.Note{}, func() error { return tx.Commit(t.Context()) })
	}
	check(t, caller{t, deaf.Workflows()}.start(keyed("deaf", ""))())
	alone.want(workflow.Note{})
	hears.Tell(workflow.Note{Run: "last"})
	hears.want(workflow.Note{Run: "last"})
	others.want(workflow.Note{Run: "last"})
	if len(alone.notes) > 0 {
		t.Errorf("it hears %+v without a connection", <-alone.notes)
	}
}

// A connection that breaks is opened again, and what happened meanwhile is not missed. When nobody listens any more, it
// is closed.
func TestPostgresListenAgain(t *testing.T) {
	t.Parallel()
	p := pgtest.Pool(t)
	db := listening(t, p, "breaks "+pgtest.Value[string](t, p, "SELECT current_schema()"))
	e, second := listen(t, db), listen(t, db)
	e.want(connects...)
	const sql = ` FROM pg_stat_activity WHERE application_name = left('breaks ' || current_schema(), 63)`
	if n := pgtest.Value[int](t, p, "SELECT count(*)"+sql); n != 1 {
		t.Errorf("%d connections listen", n)
	}
	pgtest.Exec(t, p, "SELECT pg_terminate_backend(pid)"+sql)
	e.want(connects...)
	if !e.Hears() {
		t.Error("it does not hear")
	}
	e.leave()
	if !second.Hears() {
		t.Error("it does not hear for the other one")
	}
	second.leave()
	if second.Hears() {
		t.Error("it hears without a listener")
	}
	for start := time.Now(); pgtest.Value[int](t, p, "SELECT count(*)"+sql) > 0; {
		if time.Since(start) > time.Minute {
			t.Fatal("its connection stays open")
		}
	}
}

// Many notes at once are few notifications.
func TestPostgresListenMany(t *testing.T) {
	t.Parallel()
	p := pgtest.Pool(t)
	others := listen(t, listening(t, p, "others"))
	others.want(connects...)
	c := caller{t, listening(t, p, "teller").Workflows()}
	const n = 500
	var runs []workflow.NewRun
	var cancels []workflow.Message
	for range n {
		id := workflow.NewID()
		runs = append(runs, keyed(id, ""))
		cancels = append(cancels, workflow.Message{Run: id, Action: workflow.Cancel})
	}
	check(t, c.start(runs...)())
	others.want(workflow.Note{})
	check(t, c.send(cancels...)())
	heard := make(map[workflow.Note]bool)
	for len(heard) < n {
		heard[others.next()] = true
	}
	if heard[workflow.Note{}] {
		t.Error("it hears of a start once more")
	}
}
