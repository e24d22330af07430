package archtest

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// widest is how many columns a line of Go may have. A tab has four.
const widest = 120

// TestLineLength reads all Go of the checkout. Rows of tables in tests may be wider.
func TestLineLength(t *testing.T) {
	for _, p := range packages(t) {
		names, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range tooLong(source, strings.HasSuffix(name, "_test.go")) {
				t.Errorf("%s/%s:%s has more than %d columns", relative(p), filepath.Base(name), line, widest)
			}
		}
	}
}

func TestLineLengthConvicts(t *testing.T) {
	long := strings.Repeat("x", widest)
	source := "package p\n\n// " + long + "\nconst sql = `\n" + long + "x`\n\nconst " + long + " = 1\n" +
		"\t" + long[3:] + "\n\t{`" + long + "`, 1},\n\t\"" + long + "\": {},\n" +
		"\t// Output:\n\t// " + long + "\n}\n\t// " + long
	for tests, want := range map[bool]string{false: "3 7 8 10 12 14", true: "3 7 8 14"} {
		if got := strings.Join(tooLong([]byte(source), tests), " "); got != want {
			t.Errorf("tests %t: the lines %q are too long, want %q", tests, got, want)
		}
	}
}

// row is how a row of a table begins: with what it has, or with its name.
var row = regexp.MustCompile("^\t+(\\{|\"|`|[\\w.]+: +\\{|[\\w.]+\\{)")

// tooLong returns the numbers of the lines that are too long. A line with SQL is none of them: it stands in a raw
// string. In tests, nor is a row of a table, or what an Example prints.
func tooLong(source []byte, tests bool) (numbers []string) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(source))
	s.Init(file, source, nil, 0)
	raw := make(map[int]bool)
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.STRING && text[0] == '`' {
			first := file.Line(pos)
			for line := range strings.Count(text, "\n") + 1 {
				raw[first+line] = true
			}
		}
	}
	prints := false
	for i, line := range strings.Split(string(source), "\n") {
		prints = (prints || line == "\t// Output:") && strings.HasPrefix(line, "\t//")
		columns := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
		if columns > widest && !raw[i+1] && !(tests && (prints || row.MatchString(line))) {
			numbers = append(numbers, fmt.Sprint(i+1))
		}
	}
	return numbers
}
