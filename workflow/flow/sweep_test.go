package flow_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A sweeping store says when it was swept.
type sweeping struct {
	*workflow.Memory
	at []time.Time
}

func (s *sweeping) Sweep(ctx context.Context, limit int) (int, error) {
	s.at = append(s.at, time.Now())
	return s.Memory.Sweep(ctx, limit)
}

// Y60: an engine sweeps as often as its option says, else as the environment says, else each five minutes. What cannot
// be meant is logged, and does not count.
func TestSweepInterval(t *testing.T) {
	for _, c := range []struct {
		variable string
		option   time.Duration
		want     time.Duration
		logged   bool
	}{
		{"", 0, 5 * time.Minute, false},
		{"60000", 0, time.Minute, false},
		{"60000", 10 * time.Minute, 10 * time.Minute, false},
		{"1", 0, time.Second, false}, // it looks once a second
		{"0", 0, 5 * time.Minute, true},
		{"-5", 0, 5 * time.Minute, true},
		{"5m", 0, 5 * time.Minute, true},
		{"1e3", 0, 5 * time.Minute, true},
		{" 60000", 0, 5 * time.Minute, true},
		{"99999999999999", 0, 5 * time.Minute, true},
		{"99999999999999999999", 0, 5 * time.Minute, true},
	} {
		t.Run(c.variable+" "+c.option.String(), func(t *testing.T) {
			t.Setenv("WORKFLOWS_SWEEPER_INTERVAL_MS", c.variable)
			inBubble(t, func(w *world) {
				var log bytes.Buffer
				s := &sweeping{Memory: w.store}
				_, stop := w.run(s, &flow.Options{
					Sweep: c.option, Poll: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				})
				time.Sleep(10*c.want + 15*time.Second)
				stop()
				most := 11 + int(15*time.Second/c.want)
				if n := len(s.at); n < 8 || n > most {
					t.Errorf("%d sweeps in %v", n, 10*c.want)
				}
				logged := strings.Contains(log.String(), "variable=WORKFLOWS_SWEEPER_INTERVAL_MS")
				if logged != c.logged {
					t.Errorf("the log has\n%s", log.String())
				}
			})
		})
	}
}
