package ddl

import (
	"regexp"
	"strings"
)

// A token is a word, a quoted name, a literal or another character.
type token struct {
	text string
	end  int // in the source
}

var (
	wordPattern   = regexp.MustCompile(`^[\pL_][\pL\pN_$]*`)
	dollarPattern = regexp.MustCompile(`^\$([\pL_][\pL\pN_]*)?\$`)
)

// lex returns the tokens of text, without space and comments.
func lex(text string) []token {
	var tokens []token
	for pos := 0; pos < len(text); {
		n := length(text[pos:])
		t := token{text[pos : pos+n], pos + n}
		pos = t.end
		if strings.TrimSpace(t.text) != "" && !strings.HasPrefix(t.text, "--") && !strings.HasPrefix(t.text, "/*") {
			tokens = append(tokens, t)
		}
	}
	return tokens
}

// length returns how many bytes the first token of s takes. One that is not closed takes all.
func length(s string) int {
	switch {
	case strings.HasPrefix(s, "--"):
		return through(s, 2, "\n")
	case strings.HasPrefix(s, "/*"):
		return through(s, 2, "*/")
	case s[0] == '\'' || s[0] == '"' || s[0] == '`':
		quote := s[:1]
		n := through(s, 1, quote)
		for strings.HasPrefix(s[n:], quote) { // doubled, it stands for itself
			n = through(s, n+1, quote)
		}
		return n
	}
	if tag := dollarPattern.FindString(s); tag != "" {
		return through(s, len(tag), tag)
	}
	return max(1, len(wordPattern.FindString(s)))
}

// through returns where s goes on after the first end that is not before from.
func through(s string, from int, end string) int {
	if i := strings.Index(s[from:], end); i >= 0 {
		return from + i + len(end)
	}
	return len(s)
}
