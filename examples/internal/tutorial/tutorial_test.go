package tutorial

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The tutorial does word for word what it says. Only the path of the clone, the port, the URL of PostgreSQL and the
// model of the vendor are the test's own. Without a PostgreSQL the program that needs it is compiled, and not run.
func TestTutorial(t *testing.T) {
	checkout, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	sh := &shell{dir: t.TempDir(), checkout: checkout, addr: freeAddr(t), ids: make(map[string]string)}
	steps := 0
	for _, s := range readPage(t, filepath.Join(checkout, "docs", "tutorial.md")) {
		if len(s.blocks) == 0 {
			continue
		}
		steps++
		if !t.Run(s.name, func(t *testing.T) { sh.follow(t, s) }) {
			return // the next steps need this one
		}
	}
	if steps != 9 {
		t.Errorf("%d steps have blocks, want 9", steps)
	}
}

// freeAddr returns an address that nothing listens on. Its port is below those that clients get: none takes it while
// the program is down.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprint("127.0.0.1:", 30000+rand.IntN(2000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// follow does what a section says.
func (sh *shell) follow(t *testing.T, s section) {
	defer sh.end(t)
	for i, b := range s.blocks {
		t.Logf("tutorial.md:%d", b.line)
		switch b.kind {
		case "go":
			if err := os.WriteFile(filepath.Join(sh.dir, b.file), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		case "console":
			all := b.commands(t)
			for j, c := range all {
				sh.run(t, c, killed(append(all[j+1:], s.commands(t, i+1)...)))
			}
		case "text":
			sh.await(t, b.text)
		default:
			t.Fatalf("a block of kind %q", b.kind)
		}
	}
}

// killed reports whether the program that has just been started is killed by a command, before the next one is started.
func killed(next []command) bool {
	for _, c := range next {
		switch c.words[0] {
		case "pkill":
			return true
		case program:
			return false
		}
	}
	return false
}
