package checkpoint_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/lock"
)

// No reply of a server makes a call panic. A result without an error is intact.
func FuzzRedisReply(f *testing.F) {
	row := "0\n1700000000000000\nrun\nrequest\n" + `{"layout":1,"signature":"s","route":["a"]}` + "\n" + `{"n":1}` + "\n{}"
	for _, reply := range []string{
		"OK", "OK\n0", "OK\n1", "OK\n" + row, "OK\n" + row + "\n" + row,
		"OK\n7\n1\n-1\n-1\n0", "OK\n7\n1\n-1\n-1\n0\n" + row,
		"OK\n7\n1\n-1\n-1\n0\n" + strings.Replace(row, "1,", "2,", 1),
		"HELD\nowner\n7\nnonce", "HELD", "FENCED", "CONFLICT", "KNOWN", "INDEX", "OTHER\ntoken", "OTHER",
		"INVALID\nhead without an epoch\n7", "INVALID", "LIST", "SKIP", "DROP",
		"s\ntoken", "#1", "~", "", "-NOSCRIPT", "-LOADING", "-OOM", "-WRONGTYPE ", "-ERR Error running script: -READONLY ",
	} {
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		client := redistest.Answering(reply)
		defer client.Close()
		s := redischeckpoint.New(client, nil)
		k := checkpoint.Key{Orchestrator: "bot", Session: "s"}
		l := checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: 7, Nonce: "nonce"}}
		ctx := t.Context()

		c, err := s.Claim(ctx, k, checkpoint.ClaimRequest{Nonce: "nonce", Owner: "a", TTL: time.Minute})
		for _, cp := range []*checkpoint.Checkpoint{c.Last, c.Answered} {
			if err == nil && cp != nil && cp.Intact(k) != nil {
				t.Errorf("claimed with %+v", cp)
			}
		}
		for cp, err := range s.Turns(ctx, k, checkpoint.Newest) {
			if err == nil && cp.Intact(k) != nil {
				t.Errorf("read %+v", cp)
			}
		}
		for _, err := range s.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: "bot"}) {
			_ = err
		}
		cp := checkpoint.Checkpoint{Turn: 0, RunID: "run", State: []byte(`{}`)}
		_, _ = s.Renew(ctx, time.Minute, []checkpoint.Lease{l})
		_, _ = s.Held(ctx, "bot", []string{"s", "t"})
		if h, err := s.Head(ctx, k); err == nil && (h.Turn < -1 || h.First > h.Turn+1 || h.Owed > h.Turn+1) {
			t.Errorf("head %+v", h)
		}
		_ = s.Append(ctx, l, cp, none)
		_ = s.Mark(ctx, l, release)
		_ = s.Delete(ctx, l)
		_, _ = s.Sweep(ctx, 10)
		_, _ = s.Watch(ctx, "bot", "definition", "process", time.Minute)
	})
}
