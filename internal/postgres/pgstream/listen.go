package pgstream

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/tail"
)

// A lender is a *pgxpool.Pool.
type lender interface {
	Acquire(ctx context.Context) (*pgxpool.Conn, error)
	Config() *pgxpool.Config
}

const (
	// leastConns is how many connections a pool has at least that one of them may listen.
	leastConns = 4

	// quiet is how long a connection may hear nothing before the server is asked whether it is there.
	quiet = 15 * time.Second

	// patience bounds what the listener asks the server.
	patience = 5 * time.Second
)

// errPooler says that notifications would not come, because the session belongs to a pooler.
var errPooler = errors.New("a pooler is between this process and the server")

// A listener passes on the notifications of one channel.
type listener struct {
	pool    lender
	channel string
}

// listen passes on notifications until ctx ends. While it cannot listen, the Hub asks.
func (l *listener) listen(ctx context.Context, f *tail.Feed) {
	if l.pool.Config().MaxConns < leastConns {
		return
	}
	pause := keeper.Backoff{Most: patience}
	for ctx.Err() == nil {
		heard, err := l.hear(ctx, f)
		f.HearsAll(false)
		if errors.Is(err, errPooler) {
			return
		}
		if heard {
			pause = keeper.Backoff{Most: patience}
		}
		_ = keeper.Sleep(ctx, pause.Next())
	}
}

// hear passes on notifications until the connection fails. It reports whether it ever listened.
func (l *listener) hear(ctx context.Context, f *tail.Feed) (heard bool, err error) {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer l.release(ctx, conn)
	if err := l.begin(ctx, conn.Conn()); err != nil {
		return false, err
	}
	f.HearsAll(true)
	for {
		waiting, cancel := context.WithTimeout(ctx, quiet)
		n, err := conn.Conn().WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil && n.Channel == l.channel:
			tell(f, n.Payload)
		case err == nil:
		case ctx.Err() != nil || conn.Conn().IsClosed():
			return true, err
		default:
			if err := ping(ctx, conn.Conn()); err != nil {
				return true, err
			}
		}
	}
}

// begin makes the connection listen. A pooler tells its clients another process than that of the server.
func (l *listener) begin(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return err
	}
	if pid != conn.PgConn().PID() {
		return errPooler
	}
	_, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{l.channel}.Sanitize())
	return err
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return conn.Ping(ctx)
}

// release gives the connection back to the pool as it was, or closes it.
func (l *listener) release(ctx context.Context, conn *pgxpool.Conn) {
	defer conn.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, err := conn.Exec(ctx, "UNLISTEN "+pgx.Identifier{l.channel}.Sanitize())
	if err != nil {
		_ = conn.Conn().Close(ctx)
		return
	}
	over, end := context.WithCancel(ctx)
	end()
	for err == nil { // notifications that have come meanwhile
		_, err = conn.Conn().WaitForNotification(over)
	}
}

// tell passes on a notification: a hash, + or - if the status is over, and the number of the last chunk.
func tell(f *tail.Feed, payload string) {
	id, rest, _ := strings.Cut(payload, " ")
	sign, number, _ := strings.Cut(rest, " ")
	last, err := strconv.ParseInt(number, 10, 64)
	f.Tell(id, last, sign != "+" || err != nil)
}
