package redisstore

import (
	"fmt"
	"regexp"
	"strings"
)

var validPrefix = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// Prefix returns prefix, or the default if prefix is "". It panics if prefix, a constant of the program, is invalid.
func Prefix(prefix string) string {
	if prefix == "" {
		return "holdfast:"
	}
	if !validPrefix.MatchString(prefix) {
		panic(fmt.Sprintf("redis: invalid prefix %q", prefix))
	}
	return prefix
}

// escaper escapes, as in a URL, each character that would end a hash tag or hide the end of a name.
var escaper = strings.NewReplacer("%", "%25", "/", "%2F", "{", "%7B", "}", "%7D")

// unescaper takes back what escaper does.
var unescaper = strings.NewReplacer("%25", "%", "%2F", "/", "%7B", "{", "%7D", "}")

// Tag returns the hash tag of names. Different lists of names have different tags.
func Tag(names ...string) string {
	escaped := make([]string, len(names))
	for i, name := range names {
		escaped[i] = escaper.Replace(name)
	}
	return "{" + strings.Join(escaped, "/") + "}"
}

// Key returns the key with the hash tag of names that ends with suffix.
func (r *Runner) Key(suffix string, names ...string) string { return r.Prefix + Tag(names...) + suffix }

// Flag returns the argument that tells a script yes or no.
func Flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}
