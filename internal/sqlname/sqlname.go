// Package sqlname makes the names of tables and indexes from the prefix of a store.
package sqlname

import (
	"fmt"
	"regexp"
	"strings"
)

// Default is the prefix of a store whose caller sets none.
const Default = "holdfast_"

// maxName is how many bytes of a name PostgreSQL keeps; it cuts off the rest without an error.
const maxName = 63

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// A Prefix begins the names of one store's tables. It may name a schema, as in "app.holdfast_".
type Prefix struct {
	schema string // "": the search path decides
	name   string
}

// Parse reads a prefix. "" means [Default]. Each dotted part must be an identifier. Prefix and suffix together must not
// be longer than the longest name of a database.
func Parse(prefix string, suffixes ...string) (Prefix, error) {
	if prefix == "" {
		prefix = Default
	}
	var p Prefix
	schema, name, qualified := strings.Cut(prefix, ".")
	if !qualified {
		name = prefix
	} else {
		p.schema = schema
	}
	p.name = name
	if !identifier.MatchString(name) || qualified && !identifier.MatchString(schema) {
		return p, fmt.Errorf("table prefix %q: each part must match %s", prefix, identifier)
	}
	for _, s := range append(suffixes, "") {
		if n := len(p.name) + len(s); n > maxName || len(p.schema) > maxName {
			return p, fmt.Errorf("table prefix %q: %q would be longer than %d bytes", prefix, p.name+s, maxName)
		}
	}
	return p, nil
}

// Qualified reports whether the prefix names a schema.
func (p Prefix) Qualified() bool { return p.schema != "" }

// Schema returns the quoted name of the schema, or "".
func (p Prefix) Schema() string {
	if p.schema == "" {
		return ""
	}
	return `"` + p.schema + `"`
}

// Table returns the quoted name of a table. If the prefix names a schema, so does the result.
func (p Prefix) Table(suffix string) string {
	if p.schema == "" {
		return `"` + p.name + suffix + `"`
	}
	return `"` + p.schema + `"."` + p.name + suffix + `"`
}

// Index returns the quoted name of an index. It never names a schema: an index is in the schema of its table.
func (p Prefix) Index(suffix string) string { return `"` + p.name + suffix + `"` }

// Plain returns the name without quotes, for messages.
func (p Prefix) Plain(suffix string) string {
	if p.schema == "" {
		return p.name + suffix
	}
	return p.schema + "." + p.name + suffix
}
