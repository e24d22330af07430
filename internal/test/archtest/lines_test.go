package archtest

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// widest is how many characters a line of Go may have.
const widest = 120

// TestLineLength reads all Go of the checkout but tests, whose tables may be wider.
func TestLineLength(t *testing.T) {
	for _, p := range packages(t) {
		names, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range tooLong(source) {
				t.Errorf("%s/%s:%s is longer than %d characters", relative(p), filepath.Base(name), line, widest)
			}
		}
	}
}

func TestLineLengthConvicts(t *testing.T) {
	long := strings.Repeat("x", widest)
	source := "package p\n\n// " + long + "\nconst sql = `\n" + long + "x`\n\nconst " + long + " = 1\n"
	if got := strings.Join(tooLong([]byte(source)), " "); got != "3 7" {
		t.Errorf("the lines %q are too long, want 3 and 7", got)
	}
}

// tooLong returns the numbers of the lines that are too long. A line with SQL is none of them: it stands in a raw string.
func tooLong(source []byte) (numbers []string) {
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
	for i, line := range strings.Split(string(source), "\n") {
		if utf8.RuneCountInString(line) > widest && !raw[i+1] {
			numbers = append(numbers, fmt.Sprint(i+1))
		}
	}
	return numbers
}
