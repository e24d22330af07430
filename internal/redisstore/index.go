package redisstore

import "context"

// An Entry of an index may be stale, but none is missing. How that is kept up is the business of who writes it.
type Entry struct {
	Session string
	Token   string // what it was written with
}

var listScript = Script(sources, "list")

// IndexKeys returns the keys of an index: a sorted set of sessions in byte order, and a hash of the token that each
// entry was written with.
func IndexKeys(base string) []string { return []string{base, base + ":tokens"} }

// List returns entries of the index in byte order, between bounds as Redis writes them.
func (r *Runner) List(ctx context.Context, index []string, from, to string, limit int) ([]Entry, error) {
	reply, err := r.Run(ctx, listScript, index, from, to, limit)
	if err != nil {
		return nil, err
	}
	page := make([]Entry, len(reply.Values)/2)
	for i := range page {
		page[i] = Entry{reply.Values[2*i], reply.Values[2*i+1]}
	}
	return page, nil
}
