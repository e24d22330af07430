// Command holdfast shows what the bots and workflows of a service are doing, and does what a person on call has to: it
// needs the databases, and neither the code of a bot nor a running process. Run it without arguments for its help.
//
//	holdfast -db "$DATABASE_URL" runs
//	holdfast -sqlite refundbot.db why customer-7
//
// docs/operations.md says by situation which command helps. Package ops is the same for a program.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	p := &program{out: os.Stdout, err: os.Stderr, env: os.Getenv}
	code := p.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
