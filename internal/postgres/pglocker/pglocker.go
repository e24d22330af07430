package pglocker

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/deadline"
	"github.com/holdfast-go/holdfast/internal/keeper"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
)

// Options configure a [Locker], as those of package postgres do. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string
	TTL    time.Duration // how long a dead owner blocks other callers; 0 means 30s
	Poll   time.Duration // the longest pause of a waiter that does not listen; 0 means 250ms
	Owner  string        // in each lock, for people who look at the table
	Logger *slog.Logger  // nil means slog.Default()

	// Listen opens a connection on which waiters are woken. If Listen is nil, waiters poll. The locker calls Listen
	// when the first waiter comes, and closes the connection when the last waiter leaves. The connection must not go
	// through a pooler in transaction mode.
	Listen func(ctx context.Context) (*pgx.Conn, error)
}

// Locker implements [lock.Locker].
type Locker struct {
	db      *pgstate.DB
	o       Options
	sql     queries
	channel string // that waiters listen on
	keeper  *keeper.Keeper[held]
	waiters *waiters // nil: waiters poll
}

// held names a lock, and the token that proves that it is ours.
type held struct{ Key, Token string }

var _ lock.Locker = (*Locker)(nil)

// New returns a locker on pool, and panics as pgstate.New does.
func New(pool pgstate.Pool, o *Options) *Locker {
	o = cmp.Or(o, new(Options))
	d := pgstate.New(pool, pgstate.Names{Prefix: o.Prefix, Tables: tables, Indexes: []string{"locks_pkey"}})
	l := &Locker{db: d, o: *o, sql: fillAll(d), channel: pgstate.ChannelOf(d.Prefix.Plain("locks"))}
	l.o.TTL = cmp.Or(max(o.TTL, 0), 30*time.Second)
	l.o.Poll = cmp.Or(max(o.Poll, 0), 250*time.Millisecond)
	l.o.Logger = cmp.Or(o.Logger, slog.Default())
	l.keeper = keeper.New(l.o.TTL, l.renew)
	if o.Listen != nil {
		l.waiters = newWaiters(&l.o, l.channel)
	}
	return l
}

// Schema returns the statements that create the table. They may be run again.
func (l *Locker) Schema() string {
	return pgstate.Unhidden(l.db.Prefix, tables...) + names(l.db).Replace(schemaSQL)
}

// Lock waits until key is granted or ctx is done. Waiters get the key in no particular order.
func (l *Locker) Lock(ctx context.Context, key string) (context.Context, func(), error) {
	if l.waiters == nil {
		return keeper.Poll(ctx, l.o.Poll, func() (context.Context, func(), error) { return l.TryLock(ctx, key) })
	}
	held, unlock, err := l.TryLock(ctx, key)
	if errors.Is(err, lock.ErrHeld) {
		return l.listen(ctx, stored(key))
	}
	return held, unlock, err
}

// TryLock takes a free key. If the key is taken, TryLock returns [lock.ErrHeld].
func (l *Locker) TryLock(ctx context.Context, key string) (context.Context, func(), error) {
	held, unlock, _, err := l.try(ctx, stored(key), false)
	return held, unlock, err
}

// listen asks each time that it is woken, and when the present owner's TTL is over. While no connection can wake the
// waiter, listen polls.
func (l *Locker) listen(ctx context.Context, name string) (context.Context, func(), error) {
	woken, leave := l.waiters.join(ctx, name)
	defer leave()
	pause := keeper.Backoff{Most: l.o.Poll}
	for {
		held, unlock, left, err := l.try(ctx, name, true)
		if !errors.Is(err, lock.ErrHeld) {
			return held, unlock, err
		}
		if wait := pause.Next(); !l.waiters.ear.Hears() || left <= 0 {
			left = wait
		}
		left = min(left, longestWait)
		select {
		case <-woken:
		case <-time.After(left):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// try asks once. If tell is set, the owner's unlock wakes the waiters, and left is how long the owner's TTL still
// lasts.
func (l *Locker) try(
	ctx context.Context, name string, tell bool,
) (owned context.Context, unlock func(), left time.Duration, err error) {
	if ctx.Err() != nil {
		return nil, nil, 0, context.Cause(ctx)
	}
	h := held{Key: name, Token: rand.Text()}
	asking := deadline.After(ctx, deadline.Lingering)
	sent := time.Now()
	granted, left, err := l.take(asking, h, tell)
	asking.Cancel()
	switch {
	case err != nil || granted && ctx.Err() != nil:
		l.release(ctx, h) // the server may have granted it
		if ctx.Err() != nil {
			return nil, nil, 0, context.Cause(ctx)
		}
		return nil, nil, 0, l.db.ErrorOf(ctx, "lock", "", err)
	case !granted:
		return nil, nil, left, lock.ErrHeld
	}
	owned, drop := l.keeper.Context(ctx, h, sent)
	return owned, func() {
		drop()
		l.release(ctx, h)
	}, 0, nil
}

func (l *Locker) take(ctx context.Context, h held, tell bool) (granted bool, left time.Duration, err error) {
	err = l.db.Again(ctx, func() error {
		rows, err := l.db.Query(ctx, l.sql.take, h.Key, h.Token, l.o.Owner, l.o.TTL.Microseconds(), tell)
		if err != nil {
			return err
		}
		var us int64
		_, err = pgx.ForEachRow(rows, []any{&granted, &us}, func() error { return nil })
		left = time.Duration(us) * time.Microsecond
		return err
	})
	return granted, left, err
}

// longestWait bounds how long a waiter relies on being woken: a connection can die without a word.
const longestWait = 5 * time.Second

func (l *Locker) release(ctx context.Context, h held) {
	ctx, cancel := keeper.Releasing(ctx)
	defer cancel()
	err := l.db.Again(ctx, func() error {
		_, err := l.db.Exec(ctx, l.sql.release, h.Key, h.Token, l.channel)
		return err
	})
	if err != nil {
		l.o.Logger.WarnContext(ctx, "unlock failed: the lock ends with its TTL",
			"key", h.Key, "ttl", l.o.TTL, "err", err)
	}
}

func (l *Locker) renew(ctx context.Context, ttl time.Duration, all []held, report keeper.Report[held]) (known bool) {
	sent := time.Now()
	extended, err := l.which(ctx, all, l.sql.renew, ttl.Microseconds())
	// ours also has the locks that renew skipped because their rows were locked.
	var ours map[held]bool
	if err == nil && len(extended) < len(all) {
		ours, err = l.which(ctx, all, l.sql.ours)
	}
	if err != nil {
		if ctx.Err() == nil {
			l.o.Logger.WarnContext(ctx, "renewal of locks failed", "locks", len(all), "err", err)
		}
		return false
	}
	var renewed, lost []held
	for _, h := range all {
		switch {
		case extended[h]:
			renewed = append(renewed, h)
		case !ours[h]:
			lost = append(lost, h)
		}
	}
	report(sent, renewed, lost)
	return len(renewed)+len(lost) == len(all)
}

// which runs sql on all and returns the locks that it finds.
func (l *Locker) which(ctx context.Context, all []held, sql string, args ...any) (map[held]bool, error) {
	keys, tokens := make([]string, len(all)), make([]string, len(all))
	for i, h := range all {
		keys[i], tokens[i] = h.Key, h.Token
	}
	found := make(map[held]bool, len(all))
	err := l.db.Again(ctx, func() error {
		rows, err := l.db.Query(ctx, sql, append([]any{keys, tokens}, args...)...)
		if err != nil {
			return err
		}
		var h held
		_, err = pgx.ForEachRow(rows, []any{&h.Key, &h.Token}, func() error {
			found[h] = true
			return nil
		})
		return err
	})
	return found, err
}

// longestKey is how many bytes of a key an index entry can take, with room to spare.
const longestKey = 1024

const hashed = "sha256:"

// stored returns the text that stands for a key, which is any string. A key that is valid text stands for itself.
func stored(key string) string {
	text := utf8.ValidString(key) && !strings.ContainsRune(key, 0)
	if len(key) <= longestKey && text && !strings.HasPrefix(key, hashed) {
		return key
	}
	return fmt.Sprintf("%s%x", hashed, sha256.Sum256([]byte(key)))
}
