package ops

import (
	"context"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/ledger"
)

// Effects yields the effects that q selects, the first issued first. With q.Open it costs by the effects that are open.
// One that is ledger.Unknown and not Pure is in doubt: a person, the vendor or the next attempt decides. One that is
// Issued is under way, or its process is gone and the next owner of its run makes it Unknown. A damaged effect comes
// with its error, and Effects goes on.
func (r *Room) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	if r.stores.Ledger == nil {
		return func(yield func(ledger.Effect, error) bool) {
			yield(ledger.Effect{}, fmt.Errorf("%w: Ledger", ErrNoStore))
		}
	}
	return r.stores.Ledger.Effects(ctx, q)
}
