package redisstore

import "context"

// An Entry of an index may be stale, but none is missing. How that is kept up is the business of who writes it.
//
// An index is one key: while a cluster moves its slot, it is on one node or on the other.
type Entry struct {
	Session string
	Token   string // what it was written with
}

var listScript = Script(sources, "list")

// Bounds of an index, as List takes them.
const (
	First = "-"
	Last  = "+"
)

// At returns the lower bound of a session's entry.
func At(session string) string { return "[" + session + "\x00" }

// Past returns the bound behind a session's entry: the lower one of what follows.
func Past(session string) string { return "[" + session + "\x01" }

// Within returns the bounds of the sessions that begin with prefix.
func Within(prefix string) (from, to string) {
	return "[" + prefix, "(" + prefix + "\xff" // above all UTF-8
}

// List returns entries of the index in byte order, between bounds.
func (r *Runner) List(ctx context.Context, index, from, to string, limit int) ([]Entry, error) {
	reply, err := r.Run(ctx, listScript, []string{index}, from, to, limit)
	if err != nil {
		return nil, err
	}
	page := make([]Entry, len(reply.Values)/2)
	for i := range page {
		page[i] = Entry{reply.Values[2*i], reply.Values[2*i+1]}
	}
	return page, nil
}
