// Package redisprocess keeps in Redis which processes are alive, and which of them watches. The stores of a database
// share it.
package redisprocess

import (
	"embed"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
)

//go:embed lua
var sources embed.FS

var (
	watchScript = redisstore.Script(sources, "watch")
	beatScript  = redisstore.Script(sources, "beat")
	restScript  = redisstore.Script(sources, "rest")
)

// Processes implement [lock.Beater] and [lock.Watcher].
type Processes struct {
	redis  redisstore.Runner
	prefix string
	home   pulse.Home
}

var (
	_ lock.Beater  = (*Processes)(nil)
	_ lock.Watcher = (*Processes)(nil)
)

// New returns the processes of a database. prefix begins every key.
func New(client redis.UniversalClient, prefix string) *Processes {
	return &Processes{redis: redisstore.Runner{Client: client, Refused: store.ErrRefused}, prefix: prefix}
}

// Pulse returns the pulse of this process in the database, whatever store asks.
func (p *Processes) Pulse(lock.Beater) *pulse.Pulse { return p.home.Pulse(p) }
