package agent

import (
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/message"
)

// maxResult is how many bytes of a result the model sees. A ledger and a turn log take 1 MiB of JSON.
const maxResult = 1<<20 - 8<<10

// clip makes a text such that every store takes it, and cuts it, and says so. It counts bytes of JSON.
func clip(text string, most int) string {
	text = stripped(strings.ToValidUTF8(text, "\uFFFD"))
	if fits := fitting(text, most); fits < len(text) {
		return text[:fits] + " [cut: there was more]"
	}
	return text
}

// fitting returns how many bytes of a text take no more than so many bytes of the shortest JSON, and twice as many of
// the JSON that package encoding/json makes: so stores count.
func fitting(text string, most int) int {
	if 6*len(text) <= most {
		return len(text)
	}
	shortest, encoded := 0, 0
	for i, r := range text {
		short, long := utf8.RuneLen(r), 0
		switch {
		case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
			short = 2
		case r < ' ':
			short = 6
		case r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029':
			long = 6
		}
		shortest += short
		encoded += max(short, long)
		if shortest > most || encoded > 2*most {
			return i
		}
	}
	return len(text)
}

// fits reports whether each block of a message takes no more than so many bytes, and all together.
func fits(m message.Message, most int) bool {
	for _, b := range m.Blocks {
		if fitting(b.Text, most) < len(b.Text) {
			return false
		}
	}
	return size(m) <= most
}
