package redisstore

import (
	"fmt"
	"regexp"
	"strings"
)

var validPrefix = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

// Prefix returns prefix, or the default if it is "". It panics, in the name of pkg, if prefix is invalid.
func Prefix(pkg, prefix string) string {
	if prefix == "" {
		return "holdfast:"
	}
	if !validPrefix.MatchString(prefix) {
		panic(fmt.Sprintf("%s: invalid prefix %q", pkg, prefix))
	}
	return prefix
}

// What would end a hash tag, or blur where a name ends, is written as in a URL.
var escaper = strings.NewReplacer("%", "%25", "/", "%2F", "{", "%7B", "}", "%7D")

// Tag returns the hash tag of names. Different names have different tags.
func Tag(names ...string) string {
	escaped := make([]string, len(names))
	for i, name := range names {
		escaped[i] = escaper.Replace(name)
	}
	return "{" + strings.Join(escaped, "/") + "}"
}

// Flag is how scripts are told yes or no.
func Flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}
