package pgstream

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsweep"
	"github.com/holdfast-go/holdfast/internal/sqlname"
	"github.com/holdfast-go/holdfast/internal/tail"
	"github.com/holdfast-go/holdfast/stream"
)

// Options configure a [Store], as those of package postgres do. The zero value, and nil, mean the defaults.
type Options struct {
	Prefix string
	Keep   int           // chunks of a session; 0 means stream.DefaultKeep
	TTL    time.Duration // after the last Append of a session; 0 means stream.DefaultTTL
	Poll   time.Duration // for readers that wait while the store cannot listen; 0 means 100ms
}

// A Store is a [stream.Store] on PostgreSQL.
type Store struct {
	db      *pgstate.DB
	sql     queries
	keep    int64
	ttl     time.Duration
	channel string
	sweeper *pgsweep.Sweeper
	hub     *tail.Hub
}

var (
	_ stream.Store   = (*Store)(nil)
	_ stream.Sweeper = (*Store)(nil)
)

// New returns a store on pool, which several goroutines use at once, and panics as pgstate.New does.
func New(pool pgstate.Pool, o *Options) *Store {
	o = cmp.Or(o, new(Options))
	d := pgstate.New(pool, pgstate.Names{Prefix: o.Prefix, Tables: tables, Indexes: indexes})
	s := &Store{
		db: d, channel: channel(d.Prefix),
		keep: int64(stream.KeepOf(o.Keep)), ttl: cmp.Or(max(o.TTL, 0), stream.DefaultTTL),
	}
	names := names(d, s.ttl)
	s.sql = fillAll(names)
	s.sweeper = pgsweep.NewByCalls(s.db, templates.slice, templates.remove, names)
	from := tail.Source{ID: id, Ask: s.ask, Poll: cmp.Or(max(o.Poll, 0), 100*time.Millisecond)}
	if p, ok := pool.(lender); ok {
		from.Listen = (&listener{pool: p, channel: s.channel}).listen
	}
	s.hub = tail.NewHub(from)
	return s
}

// channel returns the name of the channel of the notifications. It may have 63 bytes.
func channel(p sqlname.Prefix) string {
	name := p.Plain("streams")
	return name[max(0, len(name)-63):]
}

// id returns the hash that notifications name a session by.
func id(k stream.Key) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(k.Orchestrator)) + " " + k.Orchestrator + k.Session))
	return hex.EncodeToString(sum[:16])
}
