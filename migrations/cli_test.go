package migrations_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/migrations"
)

// gooseProgram builds goose's own program, of the version in go.mod, with the driver of PostgreSQL only.
func gooseProgram(t *testing.T) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("goose's program cannot be built: %v", err)
	}
	const module = "github.com/pressly/goose/v3"
	version, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "install",
		"-tags", "no_azuresql no_clickhouse no_libsql no_mssql no_mysql no_sqlite3 no_vertica no_ydb",
		module+"/cmd/goose@"+strings.TrimSpace(string(version)))
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOBIN="+dir)
	out, err := cmd.CombinedOutput()
	if offline := regexp.MustCompile(`dial |lookup |timeout|connection|GOPROXY|TLS`); err != nil && offline.Match(out) {
		t.Skipf("the sources of goose's program cannot be downloaded: %s", out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// commands returns the commands of docs/deploying.md for goose's program, with another folder of the application.
func commands(t *testing.T, folder string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/deploying.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(block[1], "-table holdfast_schema_version") {
			return strings.ReplaceAll(block[1], "db/migrations", folder)
		}
	}
	t.Fatal("the page has no commands")
	return ""
}

// An application whose migrations goose's program applies has a 00001 of its own. As the page says, our files stay
// where they are, and have their own table. Up goes on where the program was. In one folder goose would refuse them.
func TestGooseProgram(t *testing.T) {
	t.Parallel()
	dsn := freshSchema(t)
	path := gooseProgram(t) + string(os.PathListSeparator) + os.Getenv("PATH")
	folder := t.TempDir()
	const own = "-- +goose Up\nCREATE TABLE customers (n integer);\n-- +goose Down\nDROP TABLE customers;\n"
	if err := os.WriteFile(filepath.Join(folder, "00001_customers.sql"), []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", commands(t, folder))
		cmd.Env = append(os.Environ(), "PATH="+path, "DATABASE_URL="+dsn)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for range 2 {
		if out, err := run(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	db := connect(t, onPostgres, dsn)
	wantRecordedOnce(t, onPostgres, dsn)
	if got := column(t, db, "SELECT version_id FROM goose_db_version WHERE version_id > 0"); len(got) != 1 {
		t.Errorf("of the application's there are %q", got)
	}
	before := catalog(t, onPostgres, db)
	up(t, onPostgres, db)
	wantSame(t, "Up", catalog(t, onPostgres, db), before)
	wantServed(t, onPostgres, dsn, db)

	ours, err := migrations.FS(migrations.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(folder, ours); err != nil {
		t.Fatal(err)
	}
	if out, err := run(); err == nil || !strings.Contains(out, "duplicate version 1") {
		t.Errorf("side by side: %v: %s", err, out)
	}
}
