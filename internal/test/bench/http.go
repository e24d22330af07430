package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// mostHTTP bounds what a turn through HTTP costs, in times of Execute.
const mostHTTP = 1.25

// httpPostgres measures what a turn costs through HTTP.
func (b *bench) httpPostgres(ctx context.Context) error {
	return b.withPostgres(ctx, testenv.Options{}, func(pool *pgxpool.Pool, store *pgcheckpoint.Store) error {
		runs := pgsnapshot.New(pool, nil)
		if _, err := pool.Exec(ctx, runs.Schema()); err != nil {
			return err
		}
		if err := b.describe(ctx, pool, ""); err != nil {
			return err
		}
		return b.compareHTTP(ctx, "PostgreSQL", store, runs)
	})
}

// httpSQLite measures the same on a file.
func (b *bench) httpSQLite(ctx context.Context) error {
	return b.withSQLite(ctx, "http.db", func(db *sql.DB) error {
		store, runs := sqlitecheckpoint.New(db, nil), sqlitesnapshot.New(db, nil)
		if _, err := db.ExecContext(ctx, store.Schema()+runs.Schema()); err != nil {
			return err
		}
		return b.compareHTTP(ctx, "SQLite", store, runs)
	})
}

func (b *bench) compareHTTP(
	ctx context.Context, where string, store checkpoint.Store, runs snapshot.Store,
) (err error) {
	bot, err := newActor(oneIteration(), store, runs, b.keep)
	if err != nil {
		return err
	}
	if err := bot.fillAll(ctx, b.sessions, b.keep+5); err != nil {
		return err
	}
	clients, stop, err := serveTurns(ctx, bot.Orchestrator)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, workers := range []int{1, 8} {
		rota := newRota(b.sessions, workers)
		err := b.compete(ctx, contest{
			what: where + ", one iteration", workers: workers,
			reference: subject{name: "Execute", op: rota.on(bot.playKeyed)},
			subjects:  []subject{{name: "POST turns", op: rota.on(clients.play), goal: atMost(mostHTTP)}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// playKeyed plays a turn with a request id of its own, as each request has one.
func (a actor[S]) playKeyed(ctx context.Context, session string) error {
	in := orchestrator.Input{RequestID: rand.Text(), Text: "Where is my order?"}
	_, err := a.Execute(ctx, session, in, nil)
	return err
}

// httpClients play turns through HTTP.
type httpClients struct {
	client *http.Client
	url    string
}

// serveTurns serves a bot on loopback, until stop.
func serveTurns(
	ctx context.Context, bot *orchestrator.Orchestrator[conversation],
) (c httpClients, stop func() error, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return c, nil, err
	}
	server := &http.Server{ //nolint:gosec // no stranger connects
		Handler: turnhttp.Handler(bot, turnhttp.Options[conversation]{
			Authorize: turnhttp.Anyone,
			Reply:     func(res *orchestrator.Result[conversation]) any { return res.Turn },
		}),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	stop = func() error {
		transport.CloseIdleConnections()
		err := server.Close()
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
	return httpClients{&http.Client{Transport: transport}, "http://" + listener.Addr().String()}, stop, nil
}

func (c httpClients) play(ctx context.Context, session string) (err error) {
	body := bytes.NewReader([]byte(`{"message":"Where is my order?"}`))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/sessions/"+session+"/turns", body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", rand.Text())
	res, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	doc, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", res.StatusCode, doc)
	}
	return err
}
