package bootdrain_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// An errorLog is a log that hands on the errors of one message.
type errorLog struct {
	message string
	errs    chan string
}

func (h errorLog) Enabled(context.Context, slog.Level) bool { return true }

func (h errorLog) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h errorLog) WithGroup(string) slog.Handler { return h }

func (h errorLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message != h.message {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			select {
			case h.errs <- a.Value.String():
			default:
			}
		}
		return true
	})
	return nil
}

// A Redis that evicts keys is told to whoever reads the log of a watch.
func TestEvictionIsLogged(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	if err := client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	b, err := opened{
		checkpoints: redischeckpoint.New(client, nil), snapshots: redissnapshot.New(client, nil), limits: limits,
	}.bot(nil)
	if err != nil {
		t.Fatal(err)
	}
	log := errorLog{"pass not made", make(chan string, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = bootdrain.Watch(ctx, b, &bootdrain.Options{Logger: slog.New(log)})
	}()
	defer func() { cancel(); <-ended }()
	select {
	case text := <-log.errs:
		if !strings.Contains(text, "maxmemory-policy is allkeys-lru: set it to noeviction") {
			t.Errorf("the log says %q", text)
		}
	case <-time.After(time.Minute):
		t.Error("the log says nothing")
	}
}
