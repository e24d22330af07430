package agui

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
)

// An operation is one of a JSON Patch, RFC 6902.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// diff returns the JSON Patch that makes one document another; nil if the document itself is no longer than that.
func diff(from, to json.RawMessage) []operation {
	var all []operation
	changes(&all, "", from, to)
	if doc, err := json.Marshal(all); err != nil || len(doc) >= len(to) {
		return nil
	}
	return all
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// changes adds what makes the value at a path another. Objects are compared by their members, and arrays by their
// elements from the front.
func changes(all *[]operation, path string, from, to json.RawMessage) {
	if sameJSON(from, to) {
		return
	}
	var wasMap, isMap map[string]json.RawMessage
	var was, is []json.RawMessage
	switch {
	case both(from, to, '{', &wasMap, &isMap):
		changedMembers(all, path, wasMap, isMap)
		return
	case !both(from, to, '[', &was, &is):
		*all = append(*all, operation{"replace", path, to})
		return
	}
	for i := range min(len(was), len(is)) {
		changes(all, path+"/"+strconv.Itoa(i), was[i], is[i])
	}
	for i := len(was) - 1; i >= len(is); i-- {
		*all = append(*all, operation{"remove", path + "/" + strconv.Itoa(i), nil})
	}
	for _, value := range is[min(len(was), len(is)):] {
		*all = append(*all, operation{"add", path + "/-", value})
	}
}

func changedMembers(all *[]operation, path string, was, is map[string]json.RawMessage) {
	var names []string
	for name := range was {
		names = append(names, name)
	}
	for name := range is {
		if _, both := was[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		at := path + "/" + escapePointer.Replace(name)
		old, had := was[name]
		value, has := is[name]
		switch {
		case !has:
			*all = append(*all, operation{"remove", at, nil})
		case !had:
			*all = append(*all, operation{"add", at, value})
		default:
			changes(all, at, old, value)
		}
	}
}

// both reads two documents that begin with a sign, and reports whether they do.
func both[T any](from, to json.RawMessage, sign byte, was, is *T) bool {
	return begins(from, sign) && begins(to, sign) && json.Unmarshal(from, was) == nil && json.Unmarshal(to, is) == nil
}

func begins(doc json.RawMessage, with byte) bool {
	doc = bytes.TrimLeft(doc, " \t\r\n")
	return len(doc) > 0 && doc[0] == with
}

// sameJSON reports whether two documents hold the same value.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := jsonvalue.Canonical(a)
	y, errY := jsonvalue.Canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
