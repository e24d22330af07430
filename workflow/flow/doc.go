// Package flow runs workflows: functions whose steps survive their process.
//
//	var refund = flow.New("refund", 1, func(r *flow.Run, order string) (string, error) {
//		receipt, err := flow.Step(r, "pay", func(ctx context.Context) (string, error) {
//			return pay(ctx, flow.StepID(ctx), order)
//		})
//		if err != nil {
//			return "", err
//		}
//		if err := r.Sleep("cool-down", 24*time.Hour); err != nil {
//			return "", err
//		}
//		return receipt, flow.Do(r, "tell", func(ctx context.Context) error { return mail(ctx, receipt) })
//	})
//
//	err := flow.NewEngine(postgres.New(pool, nil).Workflows(), nil, refund).Run(ctx)
//
// The body of a workflow runs from its top whenever its run goes on. A step that is in the journal returns what the
// journal has, without calling its function. So code between steps runs again, and must not depend on clocks, random
// numbers or the world: what does is a step.
//
// # What is promised
//
//   - A step's function is called at least once, and by one owner at a time as far as fences reach. Its outcome is
//     written once. After that it is never called again. What it does elsewhere must bear a second call: [StepID] names
//     the step to the other side. [StepTx] writes in the database of the runs, and happens exactly once.
//   - The outcome of a step is durable before the function of the next step of its branch is called, and before the
//     run sleeps, waits, fails or ends. With Options.Eager it is durable before Step returns.
//   - A run that sleeps or waits is a row. It costs no goroutine, no memory and no statement until it is due.
//   - A process that dies loses no step whose successor had begun. Another process goes on within Options.DeadAfter if
//     the process had beaten, and within Options.Lease and two Polls if it died before its first beat.
//   - A process that stood still and goes on writes nothing any more to runs that others took over.
//
// # When code changes
//
// The journal knows the steps by their names and places. If the code calls another step than the journal has, the run
// is held as workflow.Drifted, and nothing runs. Raise the version for a change that does not fit the journals of runs
// in flight, and give [NewEngine] both versions until the old runs have ended. Or guard the change with [Patch].
//
// # Errors
//
// A step that fails is called again, as its policy says. If all attempts are used up, Step returns a [*StepError]. A
// body that returns an error, or panics, fails its run. A value that does not decode holds its run.
package flow
