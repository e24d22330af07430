package bootdrain_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// payments is how many payments are acknowledged and lost.
const payments = 10

// A cashbox counts what was paid for each session. No ledger loses that.
type cashbox struct {
	mu   sync.Mutex // protects following fields
	paid map[string]int
	keys map[string]string // the session by the key that was paid
}

// A paymaster is a bot that pays once in each session, as its name says: "ask by key 3".
type paymaster struct {
	*bot
	ledger  *pgledger.Ledger
	cashbox *cashbox
}

func (m *paymaster) pay(ctx context.Context, t *turn) error {
	if t.Input.Text == "hello" {
		return nil
	}
	o := &orchestrator.OnceOptions[string]{Settles: time.Nanosecond}
	if strings.HasPrefix(t.Session, "verifiable") {
		o.Class, o.Verify = ledger.Verifiable, func(_ context.Context, key string) (string, bool, error) {
			m.cashbox.mu.Lock()
			defer m.cashbox.mu.Unlock()
			_, landed := m.cashbox.keys[key]
			return "receipt", landed, nil
		}
	}
	if strings.Contains(t.Session, "by key") {
		o.Key = "order of " + t.Session
	}
	_, err := orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
		m.cashbox.mu.Lock()
		defer m.cashbox.mu.Unlock()
		m.cashbox.paid[t.Session]++
		m.cashbox.keys[key] = t.Session
		return "receipt", nil
	}, o)
	return err
}

// payers are the sessions. Half of them are older than the backup.
func payers() (all []string) {
	kinds := []string{"ask by key", "ask by place", "verifiable by key", "verifiable by place", "ask by key"}
	for i := range payments {
		all = append(all, fmt.Sprint(kinds[i%len(kinds)], " ", i))
	}
	// A session that was lost has another life, and an effect by place another key. The vendor does not know it.
	all[8] = "verifiable by key 8"
	return all
}

// A bookkeeping is where a paymaster keeps its stores: all in PostgreSQL, or only the ledger.
type bookkeeping struct {
	client *redis.Client // nil: all in PostgreSQL
	prefix string
}

func (b bookkeeping) open(t *testing.T, url string, doubtFor time.Duration, box *cashbox) (*paymaster, []lock.Raiser) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	m := &paymaster{cashbox: box, ledger: pgledger.New(pool, &pgledger.Options{DoubtFor: doubtFor})}
	d := orchestrator.Definition[talk]{
		Name: "support", First: "pay", Intents: orchestrator.Intents[talk]{"pay": {Run: m.pay}},
	}
	o := &orchestrator.Options{Ledger: m.ledger, Limits: limits, Logger: quiet}
	var raisers []lock.Raiser
	if b.client == nil {
		turns, runs := pgcheckpoint.New(pool, nil), pgsnapshot.New(pool, nil)
		o.Snapshots, raisers = runs, []lock.Raiser{runs, turns, m.ledger}
		m.bot, err = orchestrator.New(d, turns, o)
	} else {
		turns := redischeckpoint.New(b.client, &redischeckpoint.Options{Prefix: b.prefix})
		runs := redissnapshot.New(b.client, &redissnapshot.Options{Prefix: b.prefix})
		o.Snapshots, raisers = runs, []lock.Raiser{runs, turns, m.ledger}
		m.bot, err = orchestrator.New(d, turns, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m, raisers
}

func raiseAll(t *testing.T, stores []lock.Raiser, lost time.Time) {
	t.Helper()
	for _, s := range stores {
		_, err := s.Raise(t.Context(), lost)
		ensure(t, err)
	}
}

func ensure(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// say sends a request of a session. The request id is the same each time.
func (m *paymaster) say(t *testing.T, session, text string) error {
	_, err := m.Execute(t.Context(), session, orchestrator.Input{RequestID: text + " of " + session, Text: text}, nil)
	return err
}

// A backup is restored that lacks ten payments which were acknowledged, and the same ten requests come again. Without
// Raise, and if its window is not open, all ten are paid twice. With it none is paid twice, unless a person says so.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]bookkeeping{"postgres": {}, "redis": {prefix: "holdfast:"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartPostgres(t, nil)
			migrated(t, "pgx", server.URL, migrations.Postgres)
			if name == "redis" {
				options, err := redis.ParseURL(testenv.StartRedis(t, nil).URL)
				if err != nil {
					t.Fatal(err)
				}
				b.client = redis.NewClient(options)
				t.Cleanup(func() { b.client.Close() })
			}
			paid := &cashbox{paid: make(map[string]int), keys: make(map[string]string)}
			m, _ := b.open(t, server.URL, 0, paid)
			for _, session := range payers()[:payments/2] {
				ensure(t, m.say(t, session, "hello"))
			}
			restore, restoreRedis := server.Dump(), b.dump(t)
			lost := time.Now()
			for _, session := range payers() {
				ensure(t, m.say(t, session, "pay"))
				ensure(t, m.say(t, session, "pay")) // the reply is known
			}
			paid.want(t, "before the loss", 1)

			for what, raise := range map[string]bool{"nothing is raised": false, "no window": true} {
				restoreRedis()
				m, raisers := b.open(t, restore(), -1, paid.copy())
				if raise {
					raiseAll(t, raisers, lost)
				}
				for _, session := range payers() {
					ensure(t, m.say(t, session, "pay"))
				}
				m.cashbox.want(t, what, 2)
			}

			restoreRedis()
			m, raisers := b.open(t, restore(), 0, paid)
			raiseAll(t, raisers, lost)
			m.again(t)
		})
	}
}

// again sends the ten requests to stores that were raised, and answers what a person is asked.
func (m *paymaster) again(t *testing.T) {
	t.Helper()
	var asked []string
	for _, session := range payers() {
		switch err := m.say(t, session, "pay"); {
		case errors.Is(err, orchestrator.ErrSuspended):
			asked = append(asked, session)
		case err != nil:
			t.Errorf("%s: %v", session, err)
		}
	}
	m.cashbox.want(t, "after Raise", 1)
	var open []string
	for e, err := range m.ledger.Effects(t.Context(), ledger.Query{Open: true}) {
		ensure(t, err)
		if open = append(open, e.Session); !strings.Contains(e.Error, "the ledger was raised") {
			t.Errorf("%s is in doubt because of %q", e.Session, e.Error)
		}
		a := ledger.Answer{By: "Ann", Landed: true}
		if strings.HasSuffix(e.Session, " 0") { // a person says that it did not land
			a.Landed = false
		}
		ensure(t, ledger.Resolve(t.Context(), m.ledger, e.ID, a))
	}
	slices.Sort(open)
	slices.Sort(asked)
	if !slices.Equal(open, asked) || len(asked) != 6 {
		t.Errorf("a person is asked for %q, and the ledger shows %q", asked, open)
	}
	for _, session := range payers() {
		ensure(t, m.say(t, session, "pay"))
	}
	m.cashbox.paid["ask by key 0"]-- // as Ann has said
	m.cashbox.want(t, "after the answers", 1)
	if err := m.say(t, "ask by key new", "pay"); !errors.Is(err, orchestrator.ErrSuspended) {
		t.Errorf("a key that may have been paid before the loss: %v", err)
	}
}

func (c *cashbox) copy() *cashbox {
	return &cashbox{paid: maps.Clone(c.paid), keys: maps.Clone(c.keys)}
}

// want checks that each session has paid n times.
func (c *cashbox) want(t *testing.T, when string, n int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	wrong := 0
	for _, session := range payers() {
		if c.paid[session] != n {
			wrong++
			t.Errorf("%s %s has paid %d times, want %d", when, session, c.paid[session], n)
		}
	}
	t.Logf("%s %d of %d have paid %d times", when, payments-wrong, payments, n)
}

// dump returns what puts the Redis back to where it is now.
func (b bookkeeping) dump(t *testing.T) (restore func()) {
	t.Helper()
	if b.client == nil {
		return func() {}
	}
	keys, err := b.client.Keys(t.Context(), "*").Result()
	ensure(t, err)
	saved := make(map[string]string)
	for _, key := range keys {
		saved[key], err = b.client.Dump(t.Context(), key).Result()
		ensure(t, err)
	}
	return func() {
		ensure(t, b.client.FlushAll(t.Context()).Err())
		for key, text := range saved {
			ensure(t, b.client.Restore(t.Context(), key, 0, text).Err())
		}
	}
}
