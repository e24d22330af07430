package orchestrator

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// A writer writes one JSON object. It leaves out empty and zero values.
type writer struct{ buf []byte }

func newWriter(size int) *writer { return &writer{append(make([]byte, 0, size), '{')} }

func (w *writer) end() json.RawMessage {
	w.close()
	return w.buf
}

func (w *writer) open(name string) {
	w.name(name)
	w.buf = append(w.buf, '{')
}

func (w *writer) close() { w.buf = append(w.buf, '}') }

func (w *writer) openList(name string) {
	w.name(name)
	w.buf = append(w.buf, '[')
}

func (w *writer) openElement() {
	w.next()
	w.buf = append(w.buf, '{')
}

func (w *writer) element(s string) {
	w.next()
	w.quote(s)
}

func (w *writer) list(name string, all []string) {
	if len(all) == 0 {
		return
	}
	w.openList(name)
	for _, s := range all {
		w.element(s)
	}
	w.closeList()
}

func (w *writer) closeList() { w.buf = append(w.buf, ']') }

func (w *writer) number(name string, n int64) {
	if n != 0 {
		w.name(name)
		w.buf = strconv.AppendInt(w.buf, n, 10)
	}
}

// count writes a member whose name may hold any character, and whose value may be 0.
func (w *writer) count(name string, n int) {
	w.next()
	w.quote(name)
	w.buf = append(w.buf, ':')
	w.buf = strconv.AppendInt(w.buf, int64(n), 10)
}

// fraction leaves out values that JSON has no number for.
func (w *writer) fraction(name string, f float64) {
	if f != 0 && !math.IsNaN(f) && !math.IsInf(f, 0) {
		w.name(name)
		w.buf = strconv.AppendFloat(w.buf, f, 'g', -1, 64)
	}
}

func (w *writer) text(name, s string) {
	if s != "" {
		w.name(name)
		w.quote(s)
	}
}

// raw writes a value that is already JSON.
func (w *writer) raw(name string, value json.RawMessage) {
	if len(value) > 0 {
		w.name(name)
		w.buf = append(w.buf, value...)
	}
}

func (w *writer) name(name string) {
	w.next()
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, `":`...)
}

// next writes the comma before the next value, if there is a value before it.
func (w *writer) next() {
	if last := w.buf[len(w.buf)-1]; last != '{' && last != '[' {
		w.buf = append(w.buf, ',')
	}
}

func (w *writer) quote(s string) {
	w.buf = append(w.buf, '"')
	if plain(s) {
		w.buf = append(w.buf, s...)
	} else {
		w.escape(s)
	}
	w.buf = append(w.buf, '"')
}

// escape writes no escape that JSON does not demand. json.Marshal makes six bytes of a "<". But a store accepts a
// document only if it is at most twice as long as its shortest form.
func (w *writer) escape(s string) {
	for _, r := range s { // a byte that is not UTF-8 becomes U+FFFD
		switch {
		case r == '"' || r == '\\':
			w.buf = append(w.buf, '\\', byte(r))
		case r == '\n':
			w.buf = append(w.buf, '\\', 'n')
		case r == '\r':
			w.buf = append(w.buf, '\\', 'r')
		case r == '\t':
			w.buf = append(w.buf, '\\', 't')
		case r == '\b':
			w.buf = append(w.buf, '\\', 'b')
		case r == '\f':
			w.buf = append(w.buf, '\\', 'f')
		case r < ' ':
			w.buf = fmt.Appendf(w.buf, `\u%04x`, r)
		default:
			w.buf = utf8.AppendRune(w.buf, r)
		}
	}
}

// plain reports whether s stands for itself between quotes.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
