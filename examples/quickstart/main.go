// Quickstart is a bot that is killed in the middle of a turn, and the next process, which finishes it.
//
//	go run ./examples/quickstart
//
// The program starts itself twice as a child, on one SQLite file. Of each process it prints what that process says.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/sqlite"
)

// State is the state of a session.
type State struct{ Order, Reply string }

// A Turn is the argument of each step.
type Turn = orchestrator.Turn[State]

// The session, and the question of its user. The request id makes a repetition the same request.
const session = "customer-7"

var question = orchestrator.Input{RequestID: "request-1", Text: "Where is my order?"}

// lookUp stands for a slow query, or a model that costs money.
func lookUp(_ context.Context, t *Turn) error {
	fmt.Println("  step 1: looks the order up")
	t.State.Order = "A-1042"
	return nil
}

// answer dies of kill -9 in the first process.
func answer(ctx context.Context, t *Turn) error {
	fmt.Println("  step 2: writes an answer about order " + t.State.Order)
	if os.Getenv("QUICKSTART") == "first" {
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		if err := self.Kill(); err != nil {
			return err
		}
		<-ctx.Done() // nothing is cleaned up, and no caller is told
	}
	t.State.Reply = "Order " + t.State.Order + " is on its way."
	return nil
}

// start does the work of each process of a service before it serves.
func start(ctx context.Context, db *sql.DB) (*orchestrator.Orchestrator[State], error) {
	lite := sqlite.New(db, nil)
	if err := lite.Up(ctx); err != nil {
		return nil, err
	}
	return orchestrator.New(orchestrator.Definition[State]{
		Name: "shop", Iterate: true, First: "look up",
		Intents: orchestrator.Intents[State]{
			"look up": {Run: lookUp, Next: orchestrator.To("answer")},
			"answer":  {Run: answer, Next: orchestrator.End},
		},
	}, lite.Checkpoints(), &orchestrator.Options{
		Snapshots: lite.Snapshots(),
		Limits:    orchestrator.Limits{LeaseTTL: 2 * time.Second}, // how long a dead process keeps its sessions
	})
}

// process is a child: the first asks, the second finds what the first has left.
func process(ctx context.Context, file string) error {
	db, err := sqlite.Open(file)
	if err != nil {
		return err
	}
	defer db.Close()
	bot, err := start(ctx, db)
	if err != nil {
		return err
	}
	if os.Getenv("QUICKSTART") == "first" {
		_, err := bot.Execute(ctx, session, question, nil)
		return err
	}
	res, err := bot.Resume(ctx, session, nil) // waits until the lease of the dead process has expired
	if err != nil {
		return err
	}
	fmt.Printf("  turn %d is settled: %s\n", res.Turn, res.State.Reply)
	res, err = bot.Execute(ctx, session, question, nil)
	if err != nil {
		return err
	}
	fmt.Printf("  the user asks once more, and nothing runs (replayed: %t): %s\n", res.Replayed, res.State.Reply)
	return nil
}

// demonstrate starts both processes.
func demonstrate(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "quickstart")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	child := func(name string) error {
		cmd := exec.CommandContext(ctx, program, filepath.Join(dir, "sessions.db"))
		cmd.Env = append(os.Environ(), "QUICKSTART="+name)
		cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, &said), os.Stderr
		return cmd.Run()
	}
	fmt.Println("process 1: a user asks", question.Text)
	fmt.Println("  process 1 is gone:", child("first"))
	fmt.Println("process 2: starts, and resumes what is in flight")
	if err := child("second"); err != nil {
		return err
	}
	fmt.Printf("step 1 ran %d×, step 2 ran %d×: what was saved before the kill was not done again\n",
		bytes.Count(said.Bytes(), []byte("step 1")), bytes.Count(said.Bytes(), []byte("step 2")))
	return nil
}

func main() {
	ctx := context.Background()
	run := demonstrate
	if os.Getenv("QUICKSTART") != "" {
		run = func(ctx context.Context) error { return process(ctx, os.Args[1]) }
	}
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}
