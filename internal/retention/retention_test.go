package retention_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/retention"
)

func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, down := false, error(nil)
		r := retention.Retention{Age: 24 * time.Hour, Turn: func(context.Context) (bool, error) { return ours, down }}
		swept := 0
		prune := func(_ context.Context, before time.Time) (int, error) {
			if age := time.Since(before); age != 24*time.Hour {
				t.Errorf("prunes what is %v old", age)
			}
			swept++
			return 7, nil
		}
		sweep := func(limit, want int, wantErr error) {
			t.Helper()
			n, err := r.Sweep(t.Context(), limit, prune)
			if swept != want || !errors.Is(err, wantErr) || n != 0 && n != 7 {
				t.Errorf("swept %d times, want %d: %d, %v", swept, want, n, err)
			}
		}
		sweep(1000, 0, nil) // another process sweeps
		down = errors.New("server down")
		sweep(1000, 0, down)
		ours, down = true, nil
		sweep(1000, 1, nil)
		sweep(1000, 1, nil)
		sweep(0, 2, nil) // a person asks
		time.Sleep(retention.Every)
		sweep(1000, 3, nil)
		r.Age = 0
		sweep(0, 3, nil)
	})
}
