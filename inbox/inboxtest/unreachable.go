package inboxtest

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/suite"
)

// A caller that knows that nothing was sent may try again without a doubt.
var unreachable = suite.Clause[inbox.Store]{
	Name: "unreachable",
	Rule: "if the server cannot be reached, a call sends nothing, and its error is ErrRefused",
	Check: func(ctx context.Context, s inbox.Store) error {
		_, posted := s.Post(ctx, answer("q"))
		_, alone := s.Item(ctx, key("s"), inbox.Answer, "q")
		p := &probe{ctx, s}
		for what, err := range map[string]error{
			"Post":          posted,
			"Item":          alone,
			"Remove":        s.Remove(ctx, key("s"), inbox.Answer, "q"),
			"Remove of all": s.Remove(ctx, key("s"), ""),
			"Items":         p.listed(key("s"), inbox.Answer),
			"Items of all":  p.listed(key(""), inbox.Answer),
		} {
			if err == nil {
				fail("%s succeeds", what)
			}
			want(err, inbox.ErrRefused)
		}
		return nil
	},
}

// RunUnreachable checks the clause about a server that cannot be reached. s must be a store whose server does not run.
func RunUnreachable(t *testing.T, s inbox.Store) {
	t.Helper()
	unreachable.Test(t, s)
}
