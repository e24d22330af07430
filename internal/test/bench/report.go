package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unicode/utf8"
)

// machine adds where the bench runs, and how busy other programs keep the machine.
func (b *bench) machine() {
	b.fact("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		b.fact("load average before the first round: %s", strings.Fields(string(load))[0])
	}
}

// WriteTo writes the results as a Markdown table whose columns are aligned.
func (b *bench) WriteTo(w io.Writer) (int64, error) {
	rows := [][]string{
		{"what", "workers", "reference", "its rate", "rate", "measured (range)", "goal", ""},
		{":--", "--:", ":--", "--:", "--:", ":--", ":--", ":--"},
	}
	for _, r := range b.results {
		rows = append(rows, b.row(r))
	}
	var text strings.Builder
	for _, fact := range b.facts {
		fmt.Fprintln(&text, fact)
	}
	fmt.Fprintf(&text,
		"medians of %d interleaved rounds of %v; rates are per second and drift from run to run\n\n",
		b.rounds, b.round)
	align(&text, rows)
	n, err := io.WriteString(w, text.String())
	return int64(n), err
}

func (b *bench) row(r result) []string {
	verdict := ""
	switch {
	case r.goal.bound == 0 || !b.judge:
	case r.goal.met(r):
		verdict = "met"
	default:
		verdict = "MISSED"
	}
	return []string{
		r.what, strconv.Itoa(r.workers), r.reference,
		perSecond(r.median(func(s sample) float64 { return s.reference })),
		perSecond(r.median(func(s sample) float64 { return s.rate })),
		r.goal.measured(r), r.goal.String(), verdict,
	}
}

func perSecond(rate float64) string {
	if rate < 100 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// align writes rows as lines whose cells are as wide as the widest of their column.
func align(text *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		text.WriteString("|")
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if rows[1][i] == "--:" {
				fmt.Fprintf(text, " %s%s |", pad, cell)
			} else {
				fmt.Fprintf(text, " %s%s |", cell, pad)
			}
		}
		text.WriteString("\n")
	}
}
