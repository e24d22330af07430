package main

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// An entry is a verdict on a mutant, as a line of the journal.
type entry struct {
	File    string  `json:"file"` // its last two elements, and the sum of its text
	Sum     string  `json:"sum"`
	Line    int     `json:"line"`
	Offset  int     `json:"offset"`
	Change  string  `json:"change"`
	Verdict verdict `json:"verdict"`
	By      string  `json:"by,omitempty"` // the package and the test that noticed
}

func (e entry) String() string {
	return fmt.Sprintf("%s:%d: %s: %s %s", e.File, e.Line, e.Change, e.Verdict, e.By)
}

func entryOf(s *site) entry {
	sum := sha256.Sum256([]byte(s.file.text))
	dir, name := filepath.Split(s.file.name)
	return entry{
		File: filepath.Base(dir) + "/" + name, Sum: hex.EncodeToString(sum[:6]),
		Line: s.line, Offset: s.start, Change: s.change,
	}
}

// A journal keeps verdicts from one run to the next.
type journal struct {
	known map[entry]entry // by the entry without the verdict
	file  *os.File
}

func openJournal(name string) (*journal, error) {
	j := &journal{known: make(map[entry]entry)}
	if name == "" {
		return j, nil
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	j.file = f
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) == nil { // else a run was stopped while it wrote
			j.known[e.question()] = e
		}
	}
	return j, nil
}

// question returns the entry without its verdict.
func (e entry) question() entry {
	e.Verdict, e.By = "", ""
	return e
}

func (j *journal) find(e entry) (entry, bool) {
	known, ok := j.known[e.question()]
	return known, ok
}

func (j *journal) add(e entry) error {
	if j.file == nil {
		return nil
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	return err
}

func (j *journal) close() {
	if j.file != nil {
		j.file.Close()
	}
}

// A report holds the findings about a package.
type report struct {
	pkg                string
	sites, notCompiled int
	entries            []entry
}

func (r *report) count(v verdict) (n int) {
	for _, e := range r.entries {
		if e.Verdict == v {
			n++
		}
	}
	return n
}

// printReports prints a table in Markdown, and the survivors below it.
func printReports(w io.Writer, reports []*report) {
	fmt.Fprintln(w, "| package | places | tried | killed | timed out | survived | not reached | not compiled |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|")
	for _, r := range reports {
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %d | %d | %d |\n", r.pkg, r.sites, len(r.entries),
			r.count(killed), r.count(timedOut), r.count(survived), r.count(notReached), r.notCompiled)
	}
	for _, r := range reports {
		left := slices.DeleteFunc(slices.Clone(r.entries), func(e entry) bool {
			return e.Verdict != survived && e.Verdict != notReached
		})
		slices.SortFunc(left, func(a, b entry) int {
			return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Offset, b.Offset))
		})
		for i, e := range left {
			if i == 0 {
				fmt.Fprintf(w, "\n%s\n\n", r.pkg)
			}
			fmt.Fprintf(w, "- %s:%d: `%s`", e.File, e.Line, e.Change)
			if e.Verdict == notReached {
				fmt.Fprint(w, " (not reached)")
			}
			fmt.Fprintln(w)
		}
	}
}
