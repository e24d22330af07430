package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// An Entry is an entry of an index. An entry may be stale, but no entry is missing: the writer of the index sees to it.
//
// An index is one key. While a cluster moves the key's slot, the index is on the old node or on the new one.
type Entry struct {
	Session string
	// Token is the writer's token.
	Token string
}

var listScript = Script(sources, "list")

// The bounds of an index, for List.
const (
	First = "-"
	Last  = "+"
)

// At returns the lower bound of a session's entry.
func At(session string) string { return "[" + session + "\x00" }

// Past returns the bound behind a session's entry. It is the lower bound for the sessions that follow.
func Past(session string) string { return "[" + session + "\x01" }

// Within returns the bounds of the sessions whose names begin with prefix.
func Within(prefix string) (from, to string) {
	return "[" + prefix, "(" + prefix + "\xff" // above all UTF-8
}

// Only returns the bounds of the entry of one session.
func Only(session string) (from, to string) { return At(session), "(" + session + "\x01" }

// OnIndex is Run for an index. A Fault of an index is the ErrDamaged of the whole store, not of a session.
func (r *Runner) OnIndex(ctx context.Context, script *Lua, index string, args ...any) (Reply, error) {
	reply, err := r.Run(ctx, script, []string{index}, args...)
	if fault, ok := errors.AsType[*Fault](err); ok {
		err = fmt.Errorf("%w: index: %s", store.ErrDamaged, fault.What)
	}
	return reply, err
}

// List returns the entries of the index between the bounds, in byte order.
func (r *Runner) List(ctx context.Context, index, from, to string, limit int) ([]Entry, error) {
	reply, err := r.OnIndex(ctx, listScript, index, from, to, limit)
	if err != nil {
		return nil, err
	}
	page := make([]Entry, len(reply.Values)/2)
	for i := range page {
		page[i] = Entry{reply.Values[2*i], reply.Values[2*i+1]}
	}
	return page, nil
}
