package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// A table is printed line by line, or as a JSON value a line.
type table struct {
	json  *json.Encoder
	lines *tabwriter.Writer
	rows  int
}

// table returns a table with these columns.
func (p *program) table(columns ...string) *table {
	t := new(table)
	if p.json {
		t.json = encoder(p.out)
		return t
	}
	t.lines = tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t.lines, strings.Join(columns, "\t"))
	return t
}

// row adds a row: value is the JSON, and cells are what a person sees.
func (t *table) row(value any, cells ...any) error {
	t.rows++
	if t.json != nil {
		return t.json.Encode(value)
	}
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = plain(fmt.Sprint(cell))
	}
	_, err := fmt.Fprintln(t.lines, strings.Join(texts, "\t"))
	return err
}

// end prints what is left. nothing is said in place of an empty table.
func (t *table) end(p *program, nothing string) error {
	if t.json != nil {
		return nil
	}
	if t.rows == 0 {
		_, err := fmt.Fprintln(p.out, nothing)
		return err
	}
	return t.lines.Flush()
}

// value prints one value: as JSON, or by text.
func (p *program) value(v any, text func()) error {
	if p.json {
		return encoder(p.out).Encode(v)
	}
	text()
	return nil
}

func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// plain returns a text in which nothing moves the cursor of a terminal, or ends the cell: names are what users gave.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\uFFFD'
		}
		return r
	}, s)
}

// age returns how long something took, as a person reads it.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Hour).String(), "0m0s")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// at returns a time as a person reads it.
func at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// or returns s, or a dash.
func or(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
