package archtest

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A module that go.work or the Makefile does not name would be neither built with the others nor tested.
func TestModulesAreNamed(t *testing.T) {
	modules := slices.Sorted(maps.Keys(goMods(t)))
	if len(modules) < 2 {
		t.Fatalf("found the modules %q", modules)
	}
	for file, list := range map[string]string{
		"go.work":  `(?s)\nuse \((.*?)\)`,
		"Makefile": `\nMODULES +:= (.*)`,
	} {
		found := regexp.MustCompile(list).FindStringSubmatch(text(t, file))
		if found == nil {
			t.Errorf("%s has no list of modules", file)
			continue
		}
		named := strings.Fields(found[1])
		for i := range named {
			named[i] = path.Clean(named[i])
		}
		if slices.Sort(named); !slices.Equal(named, modules) {
			t.Errorf("%s names the modules %q, want %q", file, named, modules)
		}
	}
}

// A dependency has the same version in each module. Otherwise go.work selects the highest, and the module is built and
// tested with another version by itself.
func TestModulesAgree(t *testing.T) {
	required := regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`)
	versions := make(map[string]string)
	mods := goMods(t)
	for _, dir := range slices.Sorted(maps.Keys(mods)) {
		for _, m := range required.FindAllStringSubmatch(mods[dir], -1) {
			if v, ok := versions[m[1]]; ok && v != m[2] {
				t.Errorf("%s requires %s %s, and another module %s", dir, m[1], m[2], v)
			}
			versions[m[1]] = m[2]
		}
	}
	if len(versions) == 0 {
		t.Error("no module requires anything")
	}
}

// goMods returns the text of each go.mod of the checkout by its directory. The root is ".".
func goMods(t *testing.T) map[string]string {
	t.Helper()
	mods := make(map[string]string)
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == "testdata": // what is in it is no part of the checkout's build
			return fs.SkipDir
		case d.Name() == "go.mod":
			mods[path.Dir(name)] = text(t, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return mods
}

// root is the top of the checkout.
const root = "../../.."

// text returns a file of the checkout.
func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
