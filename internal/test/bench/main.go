// Bench measures the stores against the code that their users would otherwise write, and the engine against its stores.
// It says whether the goals of docs/performance.md are met.
//
//	go run ./internal/test/bench [-quick] [-only regexp] [-round 1.5s] [-rounds 7] [-large turns]
//
// It starts its own servers, with durability on, and stops them. The subjects of a comparison take turns, round by
// round in one run, because the same machine differs from itself by more than most goals ask. So ratios are worth
// reading. Absolute figures are not, except those for the engine in memory on an otherwise idle machine. If a goal is
// missed, the exit status is 1.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	run := command
	if os.Getenv(ownURL) != "" {
		run = func(ctx context.Context, _ []string) error { return own(ctx) }
	}
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) (err error) {
	size := full
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	quick := flags.Bool("quick", false, "measure everything once, briefly, and judge nothing")
	only := flags.String("only", "", "measure only the suites whose name matches this `regexp`")
	flags.DurationVar(&size.round, "round", size.round, "`duration` of a round of each subject")
	flags.IntVar(&size.rounds, "rounds", size.rounds, "`number` of interleaved rounds")
	flags.IntVar(&size.large, "large", 0, "`turns` to load in the suite postgres-large; 1,000,000 take 200 MB of disk")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *quick {
		size = brief
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the temporary directory
	defer testenv.Close()   //nolint:errcheck // each server was stopped, and its error reported

	b := &bench{
		scale:    size,
		judge:    !*quick,
		dir:      dir,
		postgres: testenv.RunPostgres,
		redis:    testenv.RunRedis,
		log: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
		},
	}
	err = b.run(ctx, wanted)
	if _, failed := b.WriteTo(os.Stdout); failed != nil {
		return failed
	}
	return err
}
