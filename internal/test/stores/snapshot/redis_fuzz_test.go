package snapshot_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/snapshot"
)

// No reply of a server makes a call panic. A result without an error is intact.
func FuzzReply(f *testing.F) {
	const row = "run\nrequest\n1\n1\nbase\nrunning\n3\n7\nnonce\n\n{}\n1700000000000000\n1700000000000000\n\n0"
	for _, reply := range []string{
		"OK", "RUN\n" + row, "FOUND\n" + row, "PARKED\n" + row, "RUN\n" + row + "\nfan\n{}", "RUN\n" + row + "\nfan",
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
		r, ctx := run("s"), t.Context()
		if found, err := s.Begin(ctx, r); err == nil && found != nil && found.Intact() != nil {
			t.Errorf("found %+v", found)
		}
		if r, err := s.Adopt(ctx, r.Key, r.Fence, 3); err == nil && r.Intact() != nil {
			t.Errorf("adopted %+v", r)
		}
		for _, session := range []string{"s", ""} {
			for r, err := range s.Runs(ctx, snapshot.Query{Key: key(session)}) {
				if err == nil && r.Intact() != nil {
					t.Errorf("read %+v", r)
				}
			}
		}
		_ = s.Save(ctx, next(r))
		_ = remove(ctx, s, r)
	})
}
