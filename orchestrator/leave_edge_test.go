package orchestrator_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// withoutSave returns a store that takes no Save of a status.
func withoutSave(s snapshot.Store, status snapshot.Status) snapshot.Store {
	return faulttest.Snapshots(s, func(
		ctx context.Context, call faulttest.Call, next func(context.Context) error,
	) error {
		if call.Method == "Save" && call.Status == status {
			return snapshot.ErrRefused
		}
		return next(ctx)
	})
}

// A turn whose end cannot be noted is told as unknown, with why it ended and why that was not noted. The run stays in
// flight, and another process finishes it.
func TestEndNotNoted(t *testing.T) {
	down := errors.New("vendor is down")
	for name, c := range map[string]struct {
		status snapshot.Status // of the Save that the store refuses
		run    func(context.Context) error
		want   error
	}{
		"left": {snapshot.Waiting, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, context.DeadlineExceeded},
		"failed": {snapshot.Ended, func(context.Context) error { return down }, down},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, in := newWorld(), Input{Text: "a", RequestID: "r"}
				away := w
				away.Snapshots = withoutSave(w.Snapshots, c.status)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				d := single(func(ctx context.Context, _ *Turn) error { return c.run(ctx) })
				_, err := away.Start(t, d, Options{}).Execute(ctx, "s", in, nil)
				wantErr(t, err, orchestrator.ErrIndeterminate, snapshot.ErrRefused, c.want)
				wantRuns(t, away.Start(t, d, Options{}), 1)
				time.Sleep(time.Minute) // until the lease has expired
				well := single(func(context.Context, *Turn) error { return nil })
				if _, err := w.Start(t, well, Options{}).Execute(t.Context(), "s", in, nil); err != nil {
					t.Error(err)
				}
				wantRuns(t, w.Start(t, d, Options{}), 0)
			})
		})
	}
}

// A run that fails while no caller waits is due again. If that cannot be noted, Recover says both.
func TestRetryNotNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		s.Crash(t, func(die func()) Def {
			return single(func(context.Context, *Turn) error { die(); return errors.New("died") })
		}, Input{Text: "a", RequestID: "r"})
		down := errors.New("vendor is down")
		away := s.World
		away.Snapshots = withoutSave(s.Snapshots, snapshot.Waiting)
		d := single(func(context.Context, *Turn) error { return down })
		time.Sleep(time.Minute)
		_, err := away.Start(t, d, Options{}).Recover(t.Context(), "s")
		wantErr(t, err, down, snapshot.ErrRefused)
	})
}

// A run whose suspension cannot be noted is told as unknown. What is in doubt is asked for when it is tried again.
func TestSuspensionNotNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		s.Vendor.Fail = []error{errTimeout}
		away := s
		away.Snapshots = withoutSave(s.Snapshots, snapshot.Suspended)
		d, in := single(pays(s, orchestrator.OnceOptions[string]{})), Input{Text: "shoes", RequestID: "r"}
		_, err := away.Start(t, d, Options{}).Execute(t.Context(), "s", in, nil)
		wantErr(t, err, orchestrator.ErrIndeterminate, snapshot.ErrRefused)
		time.Sleep(time.Minute)
		_, err = s.Start(t, d, Options{}).Execute(t.Context(), "s", in, nil)
		wantDoubt(t, err, true)
		wantErr(t, err, orchestrator.ErrSuspended)
	})
}
