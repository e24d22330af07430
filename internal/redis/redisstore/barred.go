package redisstore

import "context"

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
	reply, err := r.Run(ctx, enterScript, []string{index}, args...)
	if err != nil {
		return "", "", err
	}
	return reply.Value(0), reply.Value(1), nil
}

// Drop removes barred entries from the index.
func (r *Runner) Drop(ctx context.Context, index string, stale ...Barred) error {
	if len(stale) == 0 {
		return nil
	}
	_, err := r.Run(ctx, dropScript, []string{index}, flat(stale)...)
	return err
}

func flat(entries []Barred) []any {
	args := make([]any, 0, 3*len(entries))
	for _, b := range entries {
		args = append(args, b.Session, b.Token, b.At)
	}
	return args
}
