package transcripttest

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/transcript"
)

// A caller that knows that nothing was sent may try again without a doubt.
var unreachable = suite.Clause[transcript.Store]{
	Name: "unreachable",
	Rule: "if the server cannot be reached, a call sends nothing, and its error is ErrRefused",
	Check: func(ctx context.Context, s transcript.Store) error {
		p := &probe{ctx: ctx, store: s}
		errs := p.calls(key("s"), []transcript.Span{span(1, 3)})
		_, errs["Append"] = s.Append(ctx, key("s"), "a", said("a"))
		_, errs["Trim of all"] = s.Trim(ctx, key("s"), nil, zero)
		for what, err := range errs {
			if err == nil {
				fail("%s succeeds", what)
			}
			want(err, transcript.ErrRefused)
		}
		return nil
	},
}

// RunUnreachable checks the clause about a server that cannot be reached. s must be a store whose server does not run.
func RunUnreachable(t *testing.T, s transcript.Store) {
	t.Helper()
	unreachable.Test(t, s)
}
