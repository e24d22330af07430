package migrations_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/migrations"
)

// A published migration never changes: databases have run it, and would not run it again. testdata/published.sum has
// the sum of each, as sha256sum prints it.
func TestPublished(t *testing.T) {
	const list = "testdata/published.sum"
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	published := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || published[name] != "" {
			t.Errorf("%s: %q is no line of its own", list, line)
		}
		published[name] = sum
	}
	for _, d := range []migrations.Dialect{migrations.Postgres, migrations.SQLite} {
		for name, sum := range sums(t, d) {
			switch was := published[name]; was {
			case sum:
			case "":
				t.Errorf("%s is new: add this line to %s:\n%s  %s", name, list, sum, name)
			default:
				t.Errorf("%s has changed: undo that, and write the change as a file with the next number", name)
			}
			delete(published, name)
		}
	}
	for name := range published {
		t.Errorf("%s is gone: databases have run it", name)
	}
}

// A migration leaves the schema fit for the release before it: it only adds, and what it adds an old process need not
// fill. Otherwise no deploy could be rolled back: docs/deploying.md promises it.
func TestMigrationsOnlyAdd(t *testing.T) {
	for text, want := range map[string]string{
		"ALTER TABLE a ADD COLUMN IF NOT EXISTS b boolean NOT NULL DEFAULT false;": "",
		"ALTER TABLE a ALTER COLUMN b SET COMPRESSION lz4;":                        "",
		"alter table a\n\tdrop column b;":                                          "drop column",
		"ALTER TABLE a ADD COLUMN b text NOT NULL;":                                "ADD COLUMN b text NOT NULL;",
		"ALTER TABLE a RENAME TO b;":                                               "RENAME",
	} {
		if got := takesAway(text); got != want {
			t.Errorf("%s: it finds %q, want %q", text, got, want)
		}
	}
	for _, d := range []migrations.Dialect{migrations.Postgres, migrations.SQLite} {
		for name, text := range texts(t, d) {
			up, _, _ := strings.Cut(text, "-- +goose Down")
			if what := takesAway(up); what != "" {
				t.Errorf("%s: processes of the release before it may need what %q takes away", name, what)
			}
		}
	}
}

// takesAway returns what of text an old process would notice.
func takesAway(text string) string {
	if found := taking.FindString(text); found != "" {
		return found
	}
	for _, added := range adding.FindAllString(text, -1) {
		if upper := strings.ToUpper(added); strings.Contains(upper, "NOT NULL") && !strings.Contains(upper, "DEFAULT") {
			return added
		}
	}
	return ""
}

var (
	taking = regexp.MustCompile(`(?i)\bDROP\s+(TABLE|COLUMN|FUNCTION)\b|\bRENAME\b|\bSET\s+NOT\s+NULL\b|\bTYPE\b|` +
		`\bADD\s+(CONSTRAINT|CHECK|UNIQUE|PRIMARY|FOREIGN)\b`)
	adding = regexp.MustCompile(`(?i)\bADD\s+COLUMN\b[^,;]*[,;]`)
)

// sums returns the sums of the files of d, by dialect and name.
func sums(t *testing.T, d migrations.Dialect) map[string]string {
	t.Helper()
	sums := make(map[string]string)
	for name, text := range texts(t, d) {
		sums[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	}
	return sums
}

// texts returns the files of d, by dialect and name.
func texts(t *testing.T, d migrations.Dialect) map[string]string {
	t.Helper()
	fsys, err := migrations.FS(d)
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(fsys, "*")
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		texts[string(d)+"/"+name] = string(text)
	}
	return texts
}
