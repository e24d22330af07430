// Package ids decides which names and texts every backend can keep. So no store refuses a name or a text that another
// store accepts.
package ids

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxSize is how many bytes a name may have.
const MaxSize = 512

// short is a length. Up to it, a look at each byte is fastest.
const short = 64

// Check says why id cannot name anything, or returns nil. A name is 1 to [MaxSize] bytes of UTF-8 without U+0000.
func Check(what, id string) error {
	if id == "" {
		return fmt.Errorf("empty %s", what)
	}
	return CheckText(what, id, MaxSize)
}

// CheckOptional is Check for an id that may be empty.
func CheckOptional(what, id string) error { return CheckText(what, id, MaxSize) }

// CheckText says why text cannot be kept, or returns nil. A text is at most size bytes of UTF-8 without U+0000.
func CheckText(what, text string, size int) error {
	switch {
	case len(text) <= min(size, short) && plain(text):
		return nil
	case len(text) > size:
		return fmt.Errorf("%s of %d bytes is longer than %d", what, len(text), size)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s is not UTF-8", what)
	case strings.IndexByte(text, 0) >= 0:
		return fmt.Errorf("%s holds U+0000", what)
	}
	return nil
}

// plain reports whether text has only ASCII characters other than U+0000.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c == 0 || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
