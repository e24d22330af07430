package redistest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A Refusal is a state in which a server refuses writes.
type Refusal struct {
	Code   string // of the server's error
	Remedy string // in the store's error
	begin  func(t *testing.T, admin *redis.Client)
}

const nowhere = "127.0.0.1 1"

// Refusals are the refusals of a single Redis that a test can start.
var Refusals = []Refusal{
	{"READONLY", "read-only replica", do("REPLICAOF " + nowhere)},
	{"MASTERDOWN", "replica without its master", do("CONFIG SET replica-serve-stale-data no", "REPLICAOF "+nowhere)},
	{"NOREPLICAS", "", do("CONFIG SET min-replicas-to-write 1")},
	{"OOM", "", do("CONFIG SET maxmemory 1")},
	{"NOPERM", "permission", do("ACL SETUSER bot -evalsha -eval")},
	{"BUSY", "", hog},
	{"LOADING", "", reload},
}

// Begin starts a server that accepts writes, and returns a client. After refuse, the server refuses writes.
func (r Refusal) Begin(t *testing.T) (client *redis.Client, refuse func()) {
	t.Helper()
	s := testenv.StartRedis(t, &testenv.Options{Settings: map[string]string{
		"enable-debug-command": "yes", "busy-reply-threshold": "1", "loading-process-events-interval-bytes": "1024",
	}})
	o, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(o)
	do("ACL SETUSER bot on >secret ~* &* +@all")(t, admin)
	bot := *o
	bot.Username, bot.Password = "bot", "secret"
	client = redis.NewClient(&bot)
	t.Cleanup(func() {
		client.Close()
		admin.Close()
	})
	return client, func() { r.begin(t, admin) }
}

func do(commands ...string) func(*testing.T, *redis.Client) {
	return func(t *testing.T, admin *redis.Client) {
		t.Helper()
		for _, c := range commands {
			var args []any
			for _, arg := range strings.Fields(c) {
				args = append(args, arg)
			}
			if err := admin.Do(t.Context(), args...).Err(); err != nil {
				t.Fatalf("%s: %v", c, err)
			}
		}
	}
}

// hog runs a script that ends when the test ends.
func hog(t *testing.T, admin *redis.Client) {
	go admin.Eval(context.WithoutCancel(t.Context()), "while true do end", nil)
	t.Cleanup(func() { admin.ScriptKill(context.WithoutCancel(t.Context())) })
	until(t, admin, "BUSY")
}

// reload makes the server read its data again, slowly.
func reload(t *testing.T, admin *redis.Client) {
	ctx := context.WithoutCancel(t.Context())
	pipe := admin.Pipeline()
	for i := range 1000 {
		pipe.Set(ctx, "filler:"+strings.Repeat("x", i), strings.Repeat("x", 1000), 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	do("CONFIG SET key-load-delay 10000")(t, admin)
	go admin.Do(ctx, "DEBUG", "RELOAD")
	until(t, admin, "LOADING")
}

// until waits until the server answers with an error of that code.
func until(t *testing.T, admin *redis.Client, code string) {
	t.Helper()
	o := *admin.Options()
	o.MaxRetries = -1
	c := redis.NewClient(&o)
	defer c.Close()
	for !redis.HasErrorPrefix(c.Get(t.Context(), "x").Err(), code) {
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
	}
}

// A Deaf hook lets the first script run, loses its answer, and answers later ones with Err.
type Deaf struct {
	Err error
	// Sent is how many scripts there were.
	Sent int
}

var _ redis.Hook = (*Deaf)(nil)

// DialHook changes nothing.
func (d *Deaf) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook loses the answer of the first script, and answers later scripts with Err.
func (d *Deaf) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		if d.Sent++; d.Sent > 1 {
			return d.Err
		}
		return errors.Join(next(ctx, cmd), io.EOF)
	}
}

// ProcessPipelineHook changes nothing.
func (d *Deaf) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A Reply is an error in the form in which a server returns it.
type Reply string

var _ redis.Error = Reply("")

// Error returns the text of the reply.
func (r Reply) Error() string { return string(r) }

// RedisError marks Reply as an error that a server returned.
func (Reply) RedisError() {}
