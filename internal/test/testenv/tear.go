package testenv

import (
	"bytes"
	"os"
	"testing"
)

// TearSQLite makes the value that contains text malformed, as a broken disk does. The value must take some pages, with
// text on several of them. No process may have the database open.
func TearSQLite(tb testing.TB, path, text string) {
	tb.Helper()
	file, err := os.ReadFile(path)
	must(tb, err)
	const sizeAt = 16
	size := int(file[sizeAt])<<8 | int(file[sizeAt+1])
	torn := 0
	for page := size; page < len(file); page += size {
		// A page that continues a value begins with the number of the next page.
		if p := file[page : page+size]; p[0] == 0 && bytes.Contains(p, []byte(text)) {
			copy(p, []byte{0xff, 0xff, 0xff, 0xff})
			torn++
		}
	}
	if torn == 0 {
		tb.Fatalf("testenv: %s holds %q on no page of its own", path, text)
	}
	must(tb, os.WriteFile(path, file, 0o600))
}
