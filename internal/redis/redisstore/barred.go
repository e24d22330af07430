package redisstore

import (
	"context"
	"errors"
)

// A Barred entry is an index entry that a session's script has marked as unused: nothing relies on it any more, and
// nothing will. docs/decisions/0006-redis-runs.md says why it may then be removed.
type Barred struct {
	Session, Token string
	// At is the server's clock when the entry was barred.
	At string
}

var (
	enterScript = Script(sources, "entry", "index", "enter")
	dropScript  = Script(sources, "entry", "index", "drop")
)

// Enter makes sure that the session has an entry in the index other than stale. It returns the entry's token and when
// the entry was seen. A new token is above the token above, up to which the session has barred all tokens. Enter also
// removes the entries of gone.
func (r *Runner) Enter(
	ctx context.Context, index, session string, stale Barred, above string, gone ...Barred,
) (token, seen string, err error) {
	args := append([]any{session, stale.Token, stale.At, above}, flat(gone)...)
	reply, err := r.OnIndex(ctx, enterScript, index, args...)
	return reply.Value(0), reply.Value(1), err
}

var errStale = errors.New("no index entry is fresh enough: do the clocks of the servers differ by minutes?")

// Entered enters the session in the index, and removes the entries of gone. It passes the entry's token, and when the
// entry was seen, to run. If the verdict of run is INDEX, no call may rely on that entry, and run gets another one, at
// most most times.
func (r *Runner) Entered(
	ctx context.Context, index, session string, most int, gone []Barred, run func(token, seen string) (Reply, error),
) (Reply, error) {
	stale, above := Barred{At: "0"}, "0"
	for range most {
		token, seen, err := r.Enter(ctx, index, session, stale, above, gone...)
		if err != nil {
			return Reply{}, err
		}
		reply, err := run(token, seen)
		if err != nil || reply.Status != "INDEX" {
			return reply, err
		}
		stale, above, gone = Barred{session, token, reply.Value(0)}, reply.Value(1), nil
	}
	return Reply{}, errStale
}

// Drop removes barred entries from the index.
func (r *Runner) Drop(ctx context.Context, index string, stale ...Barred) error {
	if len(stale) == 0 {
		return nil
	}
	_, err := r.OnIndex(ctx, dropScript, index, flat(stale)...)
	return err
}

func flat(entries []Barred) []any {
	args := make([]any, 0, 3*len(entries))
	for _, b := range entries {
		args = append(args, b.Session, b.Token, b.At)
	}
	return args
}
