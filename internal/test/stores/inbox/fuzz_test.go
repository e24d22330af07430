package inbox_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// No reply of a server makes a call panic. An item without an error is intact.
func FuzzReply(f *testing.F) {
	const one = "1700000000000000\x00q\x00ada\x00sum\x00{}"
	for _, reply := range []string{
		"OK", "OK\nada", "OK\ntoken\n1700000000000000", "INDEX\n1\n2", "INDEX", "BEGIN\n1700000000000000", "BEGIN",
		"END", "END\n" + one, "MORE\n" + one, "MORE", "MORE\n\x00", "END\nx\x00q\x00ada\x00\x00{}", "DROP\n1", "DROP", "SKIP",
		"INVALID\nno head", "INVALID", "s\ntoken", "#1", "~", "",
		"-NOSCRIPT", "-LOADING", "-OOM", "-WRONGTYPE ", "-ERR Error running script: -READONLY ",
	} {
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		client := redistest.Answering(reply)
		defer client.Close()
		s := onRedis.New(client, "")
		if first, err := s.Post(t.Context(), item("s", "q", "ada")); first && err != nil {
			t.Errorf("the first, with error %v", err)
		}
		_ = s.Remove(t.Context(), key("s"), inbox.Answer, "q")
		_ = s.Remove(t.Context(), key("s"), "")
		for _, session := range []string{"s", ""} {
			for it, err := range s.Items(t.Context(), key(session), inbox.Answer) {
				if err == nil && it.Intact() != nil {
					t.Errorf("read %+v", it)
				}
			}
		}
	})
}
