// Package jsonvalue decides which JSON documents every backend can keep, so that a value which one store accepts
// is never refused by another.
package jsonvalue

import (
	"cmp"
	"errors"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// The bounds of a document that a store takes.
const (
	MaxSize  = 16 << 20 // in bytes, as [Size] counts
	MaxDepth = 1000     // of arrays and objects in one another
	// MaxMemory is how many bytes PostgreSQL takes at most to read the document, approximately.
	MaxMemory = 256_000_000
)

// PostgreSQL makes a tree of a document before it writes the document: [{},{},…] takes 220 times as much memory as
// text. These are approximate upper bounds of the memory. docs/decisions/0028 has the measurements.
const (
	PerByte = 8 // for each byte of its size
	// perValue is for a value of any kind, and for the name of a member.
	perValue = 144
	// perContainer is added for an array or an object.
	perContainer = 512
)

// mostRaw bounds the length of a document: it may be mostRaw times as long as its size may be. White space and escapes
// use the difference, because they do not count. PostgreSQL gives a document back at most half as long again as its
// size. So the store takes it again.
const mostRaw = 2

// PostgreSQL's numeric holds this many digits before the decimal point, and after it.
const (
	maxIntegerDigits  = 131072
	maxFractionDigits = 16383
)

// Bounds limit how big a document may be. A zero field is the bound of the stores.
type Bounds struct {
	// Size is in bytes, as [Size] counts.
	Size int
	// Depth is how many arrays and objects may be within one another.
	Depth int
	// Memory is in bytes. 0 means DefaultMemory of Size: 64 bytes for each byte, from 1 MB to MaxMemory.
	Memory int
}

func (b Bounds) orDefault() Bounds {
	b.Size, b.Depth = cmp.Or(b.Size, MaxSize), cmp.Or(b.Depth, MaxDepth)
	b.Memory = cmp.Or(b.Memory, DefaultMemory(b.Size))
	return b
}

// DefaultMemory returns the Memory of Bounds with a Size.
func DefaultMemory(size int) int {
	const each, least = 64, 1_000_000
	return min(max(each*size, least), MaxMemory)
}

// Check says why doc cannot be kept, or returns nil. It accepts JSON (RFC 8259) in valid UTF-8 within the bounds of the
// stores. The document must hold no U+0000 and no unpaired surrogate, raw or escaped. Its numbers must fit PostgreSQL's
// numeric.
func Check(doc []byte) error { return CheckWithin(doc, Bounds{}) }

// CheckWithin is Check with smaller bounds.
func CheckWithin(doc []byte, b Bounds) error {
	b = b.orDefault()
	if len(doc) > mostRaw*b.Size {
		return fmt.Errorf("%d bytes of JSON, white space and escapes included, are more than %d",
			len(doc), mostRaw*b.Size)
	}
	s, err := scan(doc, b.Depth)
	if err != nil {
		return err
	}
	if s.size() > b.Size {
		return fmt.Errorf("%d bytes of JSON are more than %d", s.size(), b.Size)
	}
	if m := s.memory(); m > b.Memory {
		return fmt.Errorf(
			"%d arrays and objects, %d values and names take PostgreSQL %d MB of memory, which is more than %d",
			s.containers, s.values, m/1e6, b.Memory/1e6)
	}
	return nil
}

// Stored says why no store has written doc, or returns nil. The size of doc does not matter: an earlier version may
// have had other bounds.
func Stored(doc []byte) error {
	_, err := scan(doc, MaxDepth)
	return err
}

// Size returns how many bytes doc counts. It is the size of doc's shortest form, and so it is the same on every
// backend. The shortest form has no white space between values, and no escape that JSON does not demand. It has numbers
// without exponent, as PostgreSQL's numeric writes them. When a store gives a document back, the document counts no
// more than before. If no store could take doc, at any length, Size returns why.
func Size(doc []byte) (int, error) {
	s, err := scan(doc, MaxDepth)
	if err != nil {
		return 0, err
	}
	return s.size(), nil
}

// TextSize returns how many bytes text counts as a string of a document.
func TextSize(text string) int {
	size := len(text) + len(`""`)
	for i := range len(text) {
		size += escapes(rune(text[i])) - 1
	}
	return size
}

// escapes returns how many bytes an ASCII character takes in the shortest form of a string.
func escapes(r rune) int {
	switch r {
	case '"', '\\', '\b', '\f', '\n', '\r', '\t':
		return len(`\n`)
	}
	if r < ' ' {
		return len(`\u001f`)
	}
	return 1
}

func scan(doc []byte, depth int) (scanner, error) {
	s := scanner{doc: doc, most: depth}
	if err := s.document(); err != nil {
		return s, fmt.Errorf("at byte %d: %w", s.pos, err)
	}
	return s, nil
}

var (
	errEnd     = errors.New("unexpected end of JSON")
	errToken   = errors.New("not JSON")
	errUTF8    = errors.New("not UTF-8")
	errNul     = errors.New("holds U+0000")
	errEscape  = errors.New("invalid escape")
	errControl = errors.New("control character in string")
	errHalf    = errors.New("unpaired surrogate")
	errNumber  = errors.New("number out of range")
)

type scanner struct {
	doc   []byte
	pos   int
	depth int
	most  int // how deep it may be
	// extra is how many bytes longer the shortest form is than doc up to pos. Mostly extra is below 0.
	extra int

	// values includes the containers, and the names of members.
	values, containers int
}

func (s *scanner) size() int { return len(s.doc) + s.extra }

func (s *scanner) memory() int {
	return PerByte*s.size() + perValue*s.values + perContainer*s.containers
}

func (s *scanner) document() error {
	if err := s.value(); err != nil {
		return err
	}
	if s.skipSpace(); s.pos < len(s.doc) {
		return errToken
	}
	return nil
}

// peek returns the byte at pos, or 0 at the end; 0 is never valid.
func (s *scanner) peek() byte {
	if s.pos < len(s.doc) {
		return s.doc[s.pos]
	}
	return 0
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.doc) {
		switch s.doc[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
			s.extra--
		default:
			return
		}
	}
}

func (s *scanner) value() error {
	s.values++
	s.skipSpace()
	switch c := s.peek(); {
	case c == '{':
		return s.nested('}', s.member)
	case c == '[':
		return s.nested(']', s.value)
	case c == '"':
		return s.str()
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case s.pos >= len(s.doc):
		return errEnd
	}
	return errToken
}

func (s *scanner) literal(want string) error {
	if len(s.doc)-s.pos < len(want) || string(s.doc[s.pos:s.pos+len(want)]) != want {
		return errToken
	}
	s.pos += len(want)
	return nil
}

func (s *scanner) nested(closing byte, element func() error) error {
	if s.depth++; s.depth > s.most {
		return fmt.Errorf("nested deeper than %d", s.most)
	}
	s.containers++
	s.pos++
	if s.skipSpace(); s.peek() == closing {
		s.pos++
		s.depth--
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		s.skipSpace()
		switch s.peek() {
		case closing:
			s.pos++
			s.depth--
			return nil
		case ',':
			s.pos++
		case 0:
			if s.pos >= len(s.doc) {
				return errEnd
			}
			return errToken
		default:
			return errToken
		}
	}
}

func (s *scanner) member() error {
	s.values++ // its name
	if s.skipSpace(); s.peek() != '"' {
		return errToken
	}
	if err := s.str(); err != nil {
		return err
	}
	if s.skipSpace(); s.peek() != ':' {
		return errToken
	}
	s.pos++
	return s.value()
}

func (s *scanner) str() error {
	s.pos++
	for {
		rest := s.doc[s.pos:]
		n := 0
		for n < len(rest) && plain[rest[n]] {
			n++
		}
		if s.pos += n; s.pos >= len(s.doc) {
			return errEnd
		}
		switch c := s.doc[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		case c == 0:
			return errNul
		case c < ' ':
			return errControl
		default:
			r, n := utf8.DecodeRune(s.doc[s.pos:])
			if r == utf8.RuneError && n == 1 {
				return errUTF8
			}
			s.pos += n
		}
	}
}

// plain holds the bytes that stand for themselves in a string.
var plain = func() (p [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		p[c] = c != '"' && c != '\\'
	}
	return p
}()

func (s *scanner) escape() error {
	start := s.pos
	s.pos++
	switch s.peek() {
	case '/':
		s.extra--
		s.pos++
		return nil
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return nil
	case 'u':
	default:
		return errEscape
	}
	r, err := s.codePoint()
	if err != nil {
		return err
	}
	shortest := utf8.RuneLen(r)
	if shortest == 1 {
		shortest = escapes(r)
	}
	s.extra += shortest - (s.pos - start)
	return nil
}

// codePoint reads the text after \: u and four digits, or two such escapes.
func (s *scanner) codePoint() (rune, error) {
	r, err := s.hex()
	switch {
	case err != nil:
		return 0, err
	case r == 0:
		return 0, errNul
	case !utf16.IsSurrogate(r):
		return r, nil
	case r > 0xDBFF || s.pos+1 >= len(s.doc) || s.doc[s.pos] != '\\' || s.doc[s.pos+1] != 'u':
		return 0, errHalf
	}
	s.pos++
	low, err := s.hex()
	if err != nil {
		return 0, err
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, errHalf
	}
	return r, nil
}

// hex reads the four digits after the u at pos.
func (s *scanner) hex() (rune, error) {
	s.pos++
	var r rune
	for range 4 {
		c := s.peek()
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, errEscape
		}
		r = r<<4 | rune(c)
		s.pos++
	}
	return r, nil
}

func (s *scanner) digits() (first, end int) {
	first = s.pos
	for c := s.peek(); '0' <= c && c <= '9'; c = s.peek() {
		s.pos++
	}
	return first, s.pos
}

func (s *scanner) number() error {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	whole, point := s.digits()
	if whole == point || point-whole > 1 && s.doc[whole] == '0' {
		return errToken
	}
	fraction := 0
	if s.peek() == '.' {
		s.pos++
		first, end := s.digits()
		if first == end {
			return errToken
		}
		fraction = end - first
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		return s.scaled(start, whole, point, fraction)
	}
	if fraction > maxFractionDigits || point-whole > maxIntegerDigits {
		return errNumber
	}
	if s.doc[start] == '-' && s.doc[whole] == '0' && leadingDigit(s.doc[whole:s.pos], 1) == zero {
		s.extra-- // the sign
	}
	return nil
}

// scaled reads the exponent of a number whose mantissa begins at start, and its digits at whole.
func (s *scanner) scaled(start, whole, point, fraction int) error {
	mantissa := s.doc[whole:s.pos]
	exponent, err := s.exponent()
	if err != nil {
		return err
	}
	leading := leadingDigit(mantissa, point-whole)
	places := max(fraction-exponent, 0)
	if places > maxFractionDigits || leading+exponent > maxIntegerDigits && leading != zero {
		return errNumber
	}
	written := 1
	if leading != zero {
		written = max(leading+exponent, 1) + whole - start // with the sign, which 0 does not have
	}
	if places > 0 {
		written += 1 + places
	}
	s.extra = min(s.extra+written-(s.pos-start), tooMuch)
	return nil
}

// tooMuch is more than any bound allows, and small enough that an int of 32 bits counts it.
const tooMuch = 1 << 30

// exponent reads the number after e. If the number is beyond any bound, exponent returns errNumber.
func (s *scanner) exponent() (int, error) {
	const beyond = 1 << 20
	s.pos++
	negative := s.peek() == '-'
	if negative || s.peek() == '+' {
		s.pos++
	}
	first, end := s.digits()
	if first == end {
		return 0, errToken
	}
	e := 0
	for _, c := range s.doc[first:end] {
		e = min(e*10+int(c-'0'), beyond)
	}
	if e == beyond {
		return 0, errNumber
	}
	if negative {
		e = -e
	}
	return e, nil
}

const zero = -1 << 30

// leadingDigit returns how many digits before the decimal point the first digit other than 0 stands, counting it:
// 3 for 120.5, 0 for 0.5, -1 for 0.05; zero if there is none.
func leadingDigit(mantissa []byte, whole int) int {
	place := whole
	for _, c := range mantissa {
		switch {
		case c == '.':
			continue
		case c != '0':
			return place
		}
		place--
	}
	return zero
}
