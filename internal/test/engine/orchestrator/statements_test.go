package orchestrator_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A tariff counts the requests of bots to a PostgreSQL of their own: the calls of its stores and its ledger, the round
// trips of its one connection, and the statements at the server.
type tariff struct {
	world
	ledger ledger.Ledger
	server *testenv.Server
	trips  atomic.Int64

	mu    sync.Mutex // protects following field
	calls []string
}

func newTariff(t *testing.T) *tariff {
	t.Helper()
	f := &tariff{server: testenv.StartPostgres(t, &testenv.Options{Count: true})}
	config, err := pgxpool.ParseConfig(f.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1 // what it has prepared stays prepared
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &tolledConn{Conn: conn, trips: &f.trips}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	checkpoints, snapshots, effects := pgcheckpoint.New(pool, nil), pgsnapshot.New(pool, nil), pgledger.New(pool, nil)
	if _, err := pool.Exec(t.Context(), checkpoints.Schema()+snapshots.Schema()+effects.Schema()); err != nil {
		t.Fatal(err)
	}
	toll := func(ctx context.Context, c faulttest.Call, next func(context.Context) error) error {
		f.call(strings.ToLower(c.Method))
		return next(ctx)
	}
	f.ledger = faulttest.Ledger(effects, toll)
	f.world = worldOf(
		faulttest.Checkpoints(checkpoints,
			faulttest.On(toll, "Claim", "Renew", "Append", "Mark", "Turns", "Sessions")),
		tolledSnapshots{
			faulttest.Snapshots(snapshots, toll), f, func() snapshot.Settle { return snapshots.Join(checkpoints) },
		})
	return f
}

// A bill is the cost of a turn or a pass.
type bill struct {
	calls      string
	trips      int64
	statements int64
}

func (f *tariff) bill(do func()) bill {
	statements, trips := f.server.Statements(), f.trips.Load()
	f.take()
	do()
	return bill{f.take(), f.trips.Load() - trips, f.server.Statements() - statements}
}

func (f *tariff) call(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
}

func (f *tariff) take() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := strings.Join(f.calls, " ")
	f.calls = nil
	return calls
}

// A tolledConn counts how often an answer comes after a request.
type tolledConn struct {
	net.Conn
	asked atomic.Bool
	trips *atomic.Int64
}

func (c *tolledConn) Write(p []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(p)
}

func (c *tolledConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.asked.Swap(false) {
		c.trips.Add(1)
	}
	return n, err
}

// tolledSnapshots joins with the checkpoint store of its tariff.
type tolledSnapshots struct {
	snapshot.Store
	tariff *tariff
	join   func() snapshot.Settle
}

func (s tolledSnapshots) Join(turns checkpoint.Store) snapshot.Settle {
	if turns != s.tariff.Checkpoints {
		return nil
	}
	settle := s.join()
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		s.tariff.call("settle")
		return settle(ctx, l, cp, o)
	}
}

// rounds is a bot with n iterations.
func rounds(n int) Def {
	d := echo()
	d.Iterate = n > 1
	if d.Iterate {
		d.Evaluate = func(_ context.Context, t *Turn) (Next, error) {
			if len(t.Ran) == n {
				return orchestrator.End, nil
			}
			return orchestrator.To("echo"), nil
		}
	}
	return d
}

// routed is rounds(1), but Route decides that the turn ends.
func routed() Def {
	d := echo()
	d.Iterate = true
	d.Route = func(_ context.Context, t *Turn) (Next, error) {
		if len(t.Ran) == 1 {
			return orchestrator.End, nil
		}
		return orchestrator.To("echo"), nil
	}
	return d
}

func fannedOut() Def {
	return Def{
		Intents: Intents{
			"a": {Run: func(_ context.Context, t *Turn) error { t.State.A = t.Input.Text; return nil }},
			"b": {Run: say("b")},
		},
		Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("a", "b"), nil },
	}
}

// The cost of a turn. Each call of a store is one round trip. A claim takes several statements in its one round trip.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	f := newTariff(t)
	var none snapshot.Store
	stored, apart := f.Snapshots, struct{ snapshot.Store }{f.Snapshots}
	for i, test := range []struct {
		what       string
		def        Def
		snapshots  snapshot.Store
		request    string // "#" is the turn
		calls      string
		statements int64
	}{
		{"without snapshots", rounds(1), none, "", "claim append", 3},
		{"without snapshots, with a request id", rounds(1), none, "r#", "claim append", 4},
		{"without snapshots, three iterations", rounds(3), none, "", "claim append", 3},
		{"without snapshots, with Deliver", delivered(rounds(1)), none, "", "claim append mark", 4},
		{"one iteration", rounds(1), stored, "", "claim begin settle", 4},
		{"with a request id", rounds(1), stored, "r#", "claim begin settle", 5},
		{"two iterations", rounds(2), stored, "", "claim begin save settle", 5},
		{"three iterations", rounds(3), stored, "", "claim begin save save settle", 6},
		{"with Deliver", delivered(rounds(1)), stored, "", "claim begin settle mark", 5},
		{"one iteration, after which Route ends the turn", routed(), stored, "", "claim begin save settle", 5},
		{
			"a fan-out of two, of which the first to finish is saved", fannedOut(), stored, "",
			"claim begin save settle", 5,
		},
		{"one iteration, in two databases", rounds(1), apart, "", "claim begin append delete", 5},
		{"two iterations, in two databases", rounds(2), apart, "", "claim begin save append delete", 6},
		{"a request that was answered before", rounds(1), stored, "r", "claim mark", 4},
		{"Put", rounds(1), stored, "", "claim runs append", 4},
	} {
		test.def.Name = fmt.Sprint("bot ", i)
		w := f.world
		w.Snapshots = test.snapshots
		// On a slow machine, too, no turn is renewed.
		bot := w.Start(t, test.def, Options{Limits: orchestrator.Limits{LeaseTTL: time.Hour, DeadAfter: -1}})
		want := bill{test.calls, int64(len(strings.Fields(test.calls))), test.statements}
		play := func(turn int) {
			if test.what == "Put" {
				if _, err := bot.Put(t.Context(), "s", orchestrator.AnyVersion, Input{}, add(1), nil); err != nil {
					t.Fatal(err)
				}
				return
			}
			execute(t, bot, Input{Text: "hello", RequestID: strings.ReplaceAll(test.request, "#", strconv.Itoa(turn))})
		}
		// The first claim of a session costs more, and so do statements that are not prepared yet.
		const warm, turns = 2, 4
		for turn := range warm {
			play(turn)
		}
		for turn := warm; turn < turns; turn++ {
			if got := f.bill(func() { play(turn) }); got != want {
				t.Errorf("%s: %+v, want %+v", test.what, got, want)
			}
		}
	}
}

// buying is a bot whose turns do n effects of a class, and then what is in after.
func buying(class ledger.Class, n int, after func(context.Context) error) Def {
	v := &vendor{Honours: true}
	return single(func(ctx context.Context, t *Turn) error {
		for i := range n {
			_, err := v.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{Class: class, Each: strconv.Itoa(i)})
			if err != nil {
				return err
			}
		}
		return after(ctx)
	})
}

// The cost of effects: an effect is two statements in two round trips, and a Pure one is one. A ledger that nothing
// uses costs nothing.
func TestOnceStatements(t *testing.T) {
	t.Parallel()
	f := newTariff(t)
	nothing := func(context.Context) error { return nil }
	for i, test := range []struct {
		what       string
		class      ledger.Class
		effects    int
		calls      string
		statements int64
	}{
		{"no effect", ledger.Ask, 0, "claim begin settle", 4},
		{"Ask", ledger.Ask, 1, "claim begin issue finish settle", 4 + 2},
		{"Idempotent", ledger.Idempotent, 1, "claim begin issue finish settle", 4 + 2},
		{"Verifiable", ledger.Verifiable, 1, "claim begin issue finish settle", 4 + 2},
		{"Pure", ledger.Pure, 1, "claim begin record settle", 4 + 1},
		{"three", ledger.Ask, 3, "claim begin issue finish issue finish issue finish settle", 4 + 3*2},
		{"three Pure ones", ledger.Pure, 3, "claim begin record record record settle", 4 + 3},
	} {
		d := buying(test.class, test.effects, nothing)
		d.Name = fmt.Sprint("bot ", i)
		bot := f.Start(t, d, Options{Ledger: f.ledger, Limits: orchestrator.Limits{LeaseTTL: time.Hour, DeadAfter: -1}})
		want := bill{test.calls, int64(len(strings.Fields(test.calls))), test.statements}
		const warm, turns = 2, 4
		for turn := range turns {
			if got := f.bill(func() { execute(t, bot, Input{Text: "hello"}) }); turn >= warm && got != want {
				t.Errorf("%s: %+v, want %+v", test.what, got, want)
			}
		}
	}
}

// A Pure effect of an input with a request id costs what it costs without one: what a turn of that request has recorded
// before it failed is not read.
func TestPureStatementsOfRequest(t *testing.T) {
	t.Parallel()
	f := newTariff(t)
	nothing := func(context.Context) error { return nil }
	o := Options{Ledger: f.ledger, Limits: orchestrator.Limits{LeaseTTL: time.Hour, DeadAfter: -1}}
	cost := func(effects int) (got bill) {
		d := buying(ledger.Pure, effects, nothing)
		d.Name = fmt.Sprint("requests ", effects)
		bot := f.Start(t, d, o)
		for turn := range 4 { // the first ones prepare statements
			in := Input{RequestID: fmt.Sprint("request ", turn), Text: "hello"}
			got = f.bill(func() { execute(t, bot, in) })
		}
		return got
	}
	without, with := cost(0), cost(1)
	if with.trips-without.trips != 1 || with.statements-without.statements != 1 {
		t.Errorf("%+v, want a round trip of one statement more than %+v", with, without)
	}
}

// The cost of a takeover of a run: with a ledger it is two round trips more, of three statements: the run's effects are
// adopted and listed. An effect that is known costs two statements then, a Pure one costs one, and none of them writes.
func TestOnceStatementsOfTakeover(t *testing.T) {
	t.Parallel()
	f := newTariff(t)
	takeover := func(class ledger.Class, effects int, l ledger.Ledger) bill {
		nothing := func(context.Context) error { return nil }
		forever := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		o := Options{Ledger: l, Limits: orchestrator.Limits{LeaseTTL: time.Hour, DeadAfter: -1}}
		var got bill
		for range 3 { // the first ones prepare statements
			ctx, cancel := context.WithCancel(t.Context())
			dies := func(ctx context.Context) error { cancel(); return forever(ctx) }
			dying := f.Start(t, buying(class, effects, dies), o)
			_, err := dying.Execute(ctx, "s", Input{Text: "hello"}, nil)
			cancel()
			wantErr(t, err, orchestrator.ErrIndeterminate, context.Canceled)
			bot := f.Start(t, buying(class, effects, nothing), o)
			got = f.bill(func() { recovered(t, bot, "s") })
		}
		return got
	}
	without := takeover(ledger.Ask, 0, nil)
	for _, test := range []struct {
		what              string
		class             ledger.Class
		effects           int
		trips, statements int64
	}{
		{"no effect", ledger.Ask, 0, 2, 3},
		{"one that is Completed", ledger.Ask, 1, 2 + 2, 3 + 2},
		{"a Pure one", ledger.Pure, 1, 2 + 1, 3 + 1},
	} {
		got := takeover(test.class, test.effects, f.ledger)
		if got.trips-without.trips != test.trips || got.statements-without.statements != test.statements {
			t.Errorf("%s: %+v, want %d round trips and %d statements more than %+v",
				test.what, got, test.trips, test.statements, without)
		}
		t.Logf("%s: %+v, without a ledger %+v", test.what, got, without)
	}
}

// A bot that owns no session asks no server, also after a turn that was long enough for a renewal.
func TestIdle(t *testing.T) {
	t.Parallel()
	f := newTariff(t)
	const ttl = 6 * time.Second // enough on a slow machine
	renewed := make(chan struct{}, 100)
	f.Checkpoints = faulttest.Checkpoints(f.Checkpoints, faulttest.On(
		func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
			err := next(ctx)
			select {
			case renewed <- struct{}{}:
			default:
			}
			return err
		}, "Renew"))
	d := delivered(rounds(1))
	d.Intents["echo"] = Intent{Run: func(ctx context.Context, _ *Turn) error {
		select {
		case <-renewed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	bot := f.Start(t, d, Options{Limits: orchestrator.Limits{LeaseTTL: ttl, DeadAfter: -1}})
	execute(t, bot, Input{Text: "hello"})
	// No event shows that nothing happens: some time has to pass. The first TTL is for a renewal that was under way.
	time.Sleep(ttl)
	if got := f.bill(func() { time.Sleep(2 * ttl) }); got != (bill{}) {
		t.Errorf("an idle bot cost %+v", got)
	}
}

// The cost of a drain: a few statements for each run in flight, and none for a session without a run.
func TestDrainStatements(t *testing.T) {
	t.Parallel()
	const inFlight, idle, most = 10, 1000, 8
	f := newTariff(t)
	limits := orchestrator.Limits{LeaseTTL: time.Hour, DeadAfter: -1}
	bot := f.Start(t, rounds(1), Options{Limits: limits})
	pass := func() bill { return f.bill(func() { drain(t, bot) }) }
	interruptAll := func() {
		for i := range inFlight {
			interrupt(t, f.Start(t, endless(), Options{Limits: limits}), fmt.Sprint("in flight ", i))
		}
	}
	interruptAll()
	pass()
	pass() // the statements of a first pass and of the passes after it are prepared
	nothing := pass()
	interruptAll()
	if got := f.bill(func() { recovered(t, bot, "in flight 0") }); got.statements > most {
		t.Errorf("a run of one iteration: %+v, want at most %d statements", got, most)
	} else {
		t.Logf("a run of one iteration: %+v", got)
	}
	interrupt(t, f.Start(t, endless(), Options{Limits: limits}), "in flight 0")
	before := pass()
	t.Logf("a pass over nothing: %+v; over %d runs: %d statements", nothing, inFlight, before.statements)

	for i := range idle {
		if _, err := bot.Execute(t.Context(), fmt.Sprint("idle ", i), Input{Text: "hello"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := pass(); got != nothing {
		t.Errorf("a pass over nothing beside %d idle sessions: %+v, want %+v", idle, got, nothing)
	}
	interruptAll()
	if got := pass(); got != before {
		t.Errorf("a pass over %d runs beside %d idle sessions: %+v, want %+v", inFlight, idle, got, before)
	}
}

// endless is a bot whose turns end with their context.
func endless() Def {
	d := echo()
	d.Intents = Intents{"echo": {Run: func(ctx context.Context, _ *Turn) error {
		<-ctx.Done()
		return ctx.Err()
	}}}
	return d
}

// interrupt leaves a turn of an endless bot in flight.
func interrupt(t *testing.T, bot *Bot, session string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := bot.Execute(ctx, session, Input{Text: "hello"}, &orchestrator.CallOptions{OnEvent: func(ev Event) {
		if ev.Kind == orchestrator.IntentStarted {
			cancel()
		}
	}})
	wantErr(t, err, orchestrator.ErrIndeterminate, context.Canceled)
}

func recovered(t *testing.T, bot *Bot, session string) {
	t.Helper()
	if outcome, err := bot.Recover(t.Context(), session); outcome != "settled" || err != nil {
		t.Fatalf("%s: %q, %v", session, outcome, err)
	}
}

// drain makes one pass over all sessions.
func drain(t *testing.T, bot *Bot) {
	t.Helper()
	for _, session := range recoverable(t, bot, true) {
		recovered(t, bot, session)
	}
}
