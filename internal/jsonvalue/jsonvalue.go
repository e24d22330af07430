// Package jsonvalue decides which JSON documents every backend can keep, so that a value which one store accepts
// is never refused by another.
package jsonvalue

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// The bounds of a document.
const (
	MaxSize  = 16 << 20 // bytes, with numbers written without exponent
	MaxDepth = 1000     // arrays and objects within one another
)

// What PostgreSQL's numeric holds: digits before the decimal point, and after it.
const (
	maxIntegerDigits  = 131072
	maxFractionDigits = 16383
)

// Check says why doc cannot be kept, or returns nil. It accepts JSON (RFC 8259) in valid UTF-8 that holds no U+0000
// and no unpaired surrogate, raw or escaped, whose numbers fit PostgreSQL's numeric, within [MaxSize] and [MaxDepth].
func Check(doc []byte) error {
	if len(doc) > MaxSize {
		return fmt.Errorf("%d bytes of JSON are more than %d", len(doc), MaxSize)
	}
	s := scanner{doc: doc}
	if err := s.document(); err != nil {
		return fmt.Errorf("at byte %d: %w", s.pos, err)
	}
	if size := len(doc) + s.expanded; size > MaxSize {
		return fmt.Errorf("%d bytes of JSON, with numbers written out, are more than %d", size, MaxSize)
	}
	return nil
}

var (
	errEnd     = errors.New("unexpected end of JSON")
	errToken   = errors.New("not JSON")
	errDepth   = errors.New("nested too deep")
	errUTF8    = errors.New("not UTF-8")
	errNul     = errors.New("holds U+0000")
	errEscape  = errors.New("invalid escape")
	errControl = errors.New("control character in string")
	errHalf    = errors.New("unpaired surrogate")
	errNumber  = errors.New("number out of range")
)

type scanner struct {
	doc      []byte
	pos      int
	depth    int
	expanded int // bytes that numbers grow by when written without exponent
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
		default:
			return
		}
	}
}

func (s *scanner) value() error {
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
	if s.depth++; s.depth > MaxDepth {
		return errDepth
	}
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
		for s.pos < len(s.doc) && plain[s.doc[s.pos]] {
			s.pos++
		}
		if s.pos >= len(s.doc) {
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
	s.pos++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return nil
	case 'u':
	default:
		return errEscape
	}
	r, err := s.hex()
	switch {
	case err != nil:
		return err
	case r == 0:
		return errNul
	case r < 0xD800 || r > 0xDFFF:
		return nil
	case r > 0xDBFF || s.pos+1 >= len(s.doc) || s.doc[s.pos] != '\\' || s.doc[s.pos+1] != 'u':
		return errHalf
	}
	s.pos++
	if r, err = s.hex(); err != nil {
		return err
	}
	if r < 0xDC00 || r > 0xDFFF {
		return errHalf
	}
	return nil
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
	mantissaEnd := point
	if s.peek() == '.' {
		s.pos++
		first, end := s.digits()
		if first == end {
			return errToken
		}
		fraction, mantissaEnd = end-first, end
	}
	exponent := 0
	if c := s.peek(); c == 'e' || c == 'E' {
		var err error
		if exponent, err = s.exponent(); err != nil {
			return err
		}
	}
	leading := leadingDigit(s.doc[whole:mantissaEnd], point-whole)
	places := max(fraction-exponent, 0)
	if places > maxFractionDigits || leading+exponent > maxIntegerDigits && leading != zero {
		return errNumber
	}
	written := places + 2
	if leading != zero {
		written += max(leading+exponent, 1)
	}
	s.expanded += max(written-(s.pos-start), 0)
	return nil
}

// exponent reads what follows e. What is beyond any bound is cut off where its sign still tells.
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
