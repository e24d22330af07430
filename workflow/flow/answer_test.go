package flow_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// lossy loses the answer of the first write of a timeout. Before the write is repeated, a signal comes.
type lossy struct {
	*workflow.Memory
	once sync.Once
}

func (s *lossy) Write(ctx context.Context, entries []workflow.Entry) (verdicts []error, err error) {
	verdicts, err = s.Memory.Write(ctx, entries)
	for _, e := range entries {
		for _, st := range e.Steps {
			if st.Outcome != workflow.TimedOut {
				continue
			}
			s.once.Do(func() {
				m := workflow.Message{Run: e.Run, Action: workflow.Signal, ID: "s", Event: "go"}
				_, sent := s.Send(ctx, []workflow.Message{m})
				verdicts, err = nil, errors.Join(errors.New("connection reset"), sent)
			})
		}
	}
	return verdicts, err
}

// The journal has the timeout, although its repetition is refused because of the signal. The body sees what the journal
// has, and the next wait takes the signal.
func TestTimeoutWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first []error
		def := flow.New("waits", 1, func(r *flow.Run, _ int) (int, error) {
			_, err := flow.Wait[any](r, "one", flow.Event("go"), flow.Timeout(time.Minute))
			first = append(first, err)
			_, err = flow.Wait[any](r, "two", flow.Event("go"), flow.Timeout(time.Minute))
			return 0, err
		})
		s := &lossy{Memory: new(workflow.Memory)}
		engine := flow.NewEngine(s, nil, def)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = engine.Run(ctx) })
		defer running.Wait()
		defer stop()
		run, err := def.Start(ctx, workflow.NewClient(engine.Front()), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(ctx); err != nil {
			t.Fatal(err)
		}
		for _, err := range first {
			if !errors.Is(err, flow.ErrTimeout) {
				t.Errorf("the body saw %v", err)
			}
		}
		for st, err := range s.Steps(ctx, run.ID) {
			timedOut, taken := st.Outcome == workflow.TimedOut, st.Signal == "s"
			if err != nil || timedOut != (st.Name == "one") || taken != (st.Name == "two") {
				t.Errorf("%+v, %v", st, err)
			}
		}
	})
}
