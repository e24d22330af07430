//go:build unix

package main

import (
	"database/sql"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/internal/refundtest"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
)

// What keeps the program from starting is one clear line, and a status.
func TestExit(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for name, tt := range map[string]struct {
		args   []string
		env    []string
		dir    func(t *testing.T, dir string)
		status int
		says   string
	}{
		"unknown flag":        {args: []string{"-nonsense"}, status: 2, says: "not defined: -nonsense"},
		"unknown bot":         {args: []string{"-bot=3"}, status: 2, says: "refundbot: -bot is 1 or 2: 3\n"},
		"unknown set":         {args: []string{"-migrations=mine"}, status: 2, says: "refundbot: -migrations is app or not set: \"mine\"\n"},
		"short key":           {env: []string{keyEnv + "=short"}, status: 2, says: "refundbot: REFUNDBOT_KEY has less than 16 bytes\n"},
		"argument":            {args: []string{"now"}, status: 2, says: "refundbot: it takes no argument: \"now\"\n"},
		"bad DATABASE_URL":    {env: []string{"DATABASE_URL=postgres://%zz"}, status: 2, says: "DATABASE_URL"},
		"no DATABASE_URL":     {env: []string{"REDIS_URL=redis://127.0.0.1:1"}, status: 2, says: "REDIS_URL needs DATABASE_URL"},
		"bad REDIS_URL":       {env: []string{"DATABASE_URL=postgres://127.0.0.1:1/x", "REDIS_URL=nonsense"}, status: 2, says: "REDIS_URL"},
		"port taken":          {args: []string{"-addr", taken.Addr().String()}, status: 1, says: "address already in use"},
		"no database":         {dir: noDatabase, status: 1, says: "file is not a database"},
		"newer stores":        {dir: newerStores, status: 1, says: "newer than this program"},
		"newer application":   {args: []string{"-migrations=app"}, dir: newerApplication, status: 1, says: "newer than this program"},
		"behind":              {args: []string{"-migrate=false"}, status: 1, says: "the schema is behind"},
		"folder is no folder": {args: []string{"-data", os.Args[0]}, status: 1, says: "not a directory"},
		"demo for all":        {args: []string{"-demo", "-addr", "0.0.0.0:0"}, status: 1, says: "loopback only"},
		"demo, port taken":    {args: []string{"-demo", "-addr", taken.Addr().String()}, status: 1, says: "address already in use"},
		"demo, no database":   {args: []string{"-demo"}, dir: noDatabase, status: 1, says: "file is not a database"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if tt.dir != nil {
				tt.dir(t, dir)
			}
			args := append([]string{"-demo=false", "-addr", "127.0.0.1:0", "-data", dir}, tt.args...)
			p, line := launch(t, environment(stores.Config{}, tt.env...), args...)
			if line != "" {
				t.Fatalf("it serves: %s", line)
			}
			if status := p.status(); status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			wantLine(t, p.stderr.String(), tt.says)
		})
	}
}

// wantLine wants one line that says why, beside the help of package flag and the log.
func wantLine(t *testing.T, stderr, want string) {
	t.Helper()
	n := 0
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "refundbot: ") || strings.HasPrefix(line, "flag provided") {
			n++
		}
	}
	if n != 1 || !strings.Contains(stderr, want) {
		t.Errorf("it says\n%swant one line with %q", stderr, want)
	}
}

func noDatabase(t *testing.T, dir string) {
	t.Helper()
	file, junk := filepath.Join(dir, "refundbot.db"), []byte(strings.Repeat("no database ", 1000))
	if err := os.WriteFile(file, junk, 0o600); err != nil {
		t.Fatal(err)
	}
}

func newerStores(t *testing.T, dir string) {
	t.Helper()
	newer(t, dir, "holdfast_schema_version")
}

func newerApplication(t *testing.T, dir string) {
	t.Helper()
	newer(t, dir, "goose_db_version")
}

// newer makes a database of which a later program has written that it was there.
func newer(t *testing.T, dir, table string) {
	t.Helper()
	refundtest.Open(t, stores.Config{Dir: dir, Own: table == "goose_db_version"})
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "refundbot.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	insert := "INSERT INTO " + table + " (version_id, is_applied) VALUES (99999999999999, 1)"
	if _, err := db.ExecContext(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
}

// After a rollback -newer lets the program serve, on tables that a later version has changed.
func TestNewerIsChosen(t *testing.T) {
	t.Parallel()
	for set, prepare := range map[string]func(*testing.T, string){"": newerStores, "app": newerApplication} {
		dir := t.TempDir()
		prepare(t, dir)
		p := start(t, environment(stores.Config{}),
			"-demo=false", "-addr", "127.0.0.1:0", "-data", dir, "-newer", "-migrate=false", "-migrations="+set)
		p.client().say(t, "ada", "1", "Hello")
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if status := p.status(); status != 0 || !strings.Contains(p.stderr.String(), "newer than this program") {
			t.Errorf("-migrations=%s: status %d: %s", set, status, p.stderr)
		}
	}
}

// A database that is down may come. After ten seconds the program gives up.
func TestExitDatabaseDown(t *testing.T) {
	t.Parallel()
	began := time.Now()
	env := environment(stores.Config{}, "DATABASE_URL=postgres://bot@127.0.0.1:1/app")
	p, line := launch(t, env, "-addr", "127.0.0.1:0", "-data", t.TempDir())
	if took := time.Since(began); line != "" || p.status() != 1 || took < 7*time.Second || took > 30*time.Second {
		t.Errorf("after %v: %q, status %d", took, line, p.status())
	}
	const want = `refundbot: serve: prepare: database "app" at 127.0.0.1:1 cannot be reached: connect: connection refused`
	wantLine(t, p.stderr.String(), want+"\n")
}

// The folder belongs to another user.
func TestExitReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	if os.Getuid() == 0 {
		asNobody(t, dir)
		return
	}
	p, line := launch(t, environment(stores.Config{}), "-demo=false", "-addr", "127.0.0.1:0", "-data", dir)
	if line != "" || p.status() != 1 {
		t.Errorf("%q, status %d", line, p.status())
	}
	wantLine(t, p.stderr.String(), "permission denied")
}

// With -migrations=app the application's own set has the tables, and what was stored stays.
func TestMigrationsOfTheApplication(t *testing.T) {
	everywhere(t, func(t *testing.T, c stores.Config, pays refundtest.Provider) {
		for _, set := range []string{"-migrations=app", "-migrations=", "-migrations=app"} {
			p := service(t, c, pays, set)
			p.client().say(t, "ada", "key-"+set, "Hello")
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if status := p.status(); status != 0 {
				t.Errorf("%s: status %d", set, status)
			}
		}
		p := service(t, c, pays, "-migrations=app", "-migrate=false")
		now, err := p.client().standing(t.Context(), "ada")
		if err != nil || now.Turn != 1 || len(now.Turns) != 2 {
			t.Errorf("%+v, %v", now, err)
		}
	})
}

// The program prints where it is and the word of the desk, and is ready soon. No other user of the machine can read its
// files.
func TestStart(t *testing.T) {
	t.Parallel()
	began := time.Now()
	dir, env := t.TempDir(), environment(stores.Config{}, keyEnv+"=", wordEnv+"=")
	p := start(t, env, "-demo=false", "-addr", "127.0.0.1:0", "-data", dir)
	t.Logf("ready after %v", time.Since(began))
	if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+$`).MatchString(p.url) {
		t.Errorf("it says that it is at %q", p.url)
	}
	const says = " and signs in with the word "
	for !strings.HasSuffix(p.stdout.String(), "\n") {
		if err := pause(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatalf("it says %q, want the word", p.stdout)
		}
	}
	at, word, ok := strings.Cut(strings.TrimSpace(p.stdout.String()), says)
	if !ok || at != "the desk is at "+p.url+"/desk/" || len(word) < 20 {
		t.Errorf("it says %q", p.stdout)
	}
	p.client().must(t, 401, "GET", "/app/me", "", nil, nil) // signed with another key
	client, _ := p.client().signIn(t, "ann", roleDesk, word)
	for _, path := range []string{
		"/", "/desk/", "/concierge/", "/healthz", "/readyz", "/openapi.json", "/app/config", "/app/payments", "/app/waiting",
	} {
		client.must(t, 200, "GET", path, "", nil, nil)
	}
	said := client.say(t, "ada", "1", "I want a refund for A-1007")
	if said.Reply.Receipt == "" || said.Reply.Order != "A-1007" {
		t.Errorf("%+v", said)
	}
	wantPrivate(t, dir, "payments.db", "payments.db-shm", "payments.db-wal", "refundbot.db", "refundbot.db-shm",
		"refundbot.db-wal")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := p.status(); status != 0 || p.stderr.String() != "" {
		t.Errorf("status %d\n%s", status, p.stderr)
	}
}

// wantPrivate wants a folder to have these files, each for its owner alone.
func wantPrivate(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("the files are %q, want %q", names, want)
	}
}
