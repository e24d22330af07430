package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A ledger that does not answer a read holds no session.
func TestLedgerReadHangs(t *testing.T) {
	hung := faulttest.On(func(ctx context.Context, _ faulttest.Call, _ func(context.Context) error) error {
		<-ctx.Done()
		return ctx.Err()
	}, "Effects")
	shoes := Input{Text: "shoes", RequestID: "r"}
	for name, c := range map[string]struct {
		in    Input
		want  error
		leave func(*testing.T, shop)
	}{
		// What the run waits for is asked of the ledger.
		"a run that is suspended": {Input{Text: "more"}, orchestrator.ErrUnavailable, func(t *testing.T, s shop) {
			s.vendor.fail = []error{errTimeout}
			bot := s.start(t, single(s.pays(orchestrator.OnceOptions[string]{})), Options{})
			_, err := bot.Execute(t.Context(), "s", Input{Text: "shoes"}, nil)
			wantDoubt(t, err, true)
		}},
		// What an earlier owner of the run has left in doubt is asked of it.
		"a run that fails": {shoes, orchestrator.ErrIndeterminate, func(t *testing.T, s shop) {
			s.crash(t, func(die func()) Def {
				return single(func(context.Context, *Turn) error { die(); return errors.New("died") })
			}, shoes)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop()
				c.leave(t, s)
				d := single(func(context.Context, *Turn) error { return errors.New("no") })
				bot := s.start(t, d, Options{Ledger: faulttest.Ledger(s.ledger, hung)})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				_, err := bot.Execute(ctx, "s", c.in, nil)
				wantErr(t, err, c.want)
				if errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Minute {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
				start = time.Now()
				_, err = s.start(t, d, Options{}).Execute(ctx, "s", c.in, nil)
				if took := time.Since(start); took > time.Second {
					t.Errorf("the session was held for another %v: %v", took, err)
				}
			})
		})
	}
}
