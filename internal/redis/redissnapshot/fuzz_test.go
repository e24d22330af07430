package redissnapshot_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// No reply of a server makes a call panic. A result without an error is intact.
func FuzzReply(f *testing.F) {
	const run = "run\nrequest\n1\n1\nbase\nrunning\n3\n7\nnonce\n\n{}\n1700000000000000\n1700000000000000\n\n0"
	for _, reply := range []string{
		"OK", "RUN\n" + run, "FOUND\n" + run, "PARKED\n" + run, "RUN\n" + run + "\nfan\n{}", "RUN\n" + run + "\nfan",
		"INDEX\n1\n2", "INDEX", "OK\ntoken\n1700000000000000", "OK\ntoken", "DROP", "DROP\n1", "SKIP", "FENCED", "NONE",
		"INVALID\nrun without id\nrun\nrunning", "INVALID", "s\ntoken", "#1", "~", "",
		"-NOSCRIPT", "-LOADING", "-OOM", "-WRONGTYPE ", "-ERR Error running script: -READONLY ",
	} {
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		client := redistest.Answering(reply)
		defer client.Close()
		s := redissnapshot.New(client, nil)
		k := snapshot.Key{Orchestrator: "bot", Session: "s"}
		r := snapshot.Run{
			Key: k, ID: "run", Status: snapshot.Running, Attempt: 1, Payload: []byte(`{}`),
			Fence: lock.Fence{Epoch: 7, Nonce: "nonce"},
		}
		ctx := t.Context()

		if found, err := s.Begin(ctx, r); err == nil && found != nil && found.Intact() != nil {
			t.Errorf("found %+v", found)
		}
		if r, err := s.Adopt(ctx, k, r.Fence, 3); err == nil && r.Intact() != nil {
			t.Errorf("adopted %+v", r)
		}
		for _, q := range []snapshot.Query{{Key: k}, {Key: snapshot.Key{Orchestrator: "bot"}}} {
			for r, err := range s.Runs(ctx, q) {
				if err == nil && r.Intact() != nil {
					t.Errorf("read %+v", r)
				}
			}
		}
		r.Seq = 1
		_ = s.Save(ctx, r)
		_ = s.Delete(ctx, k, r.ID, r.Fence)
	})
}
