package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A scale says how much is measured.
type scale struct {
	rounds int
	round  time.Duration
	// slices are the slices of a round. A neighbour that takes the processor for a second takes it from all subjects.
	slices   int
	sessions int // shared by a contest's workers
	keep     int // turns that a session keeps

	// young and old are turns before the settles that are compared in a long session. span is the number of these
	// settles.
	young, old, span int
	// kept is the number of turns of the Redis session that keeps many.
	kept int
	// listed is how many sessions the listing has, and turns how many turns each has.
	listed, turns int

	// few and many are the finished effects of the ledgers that are compared, and the turns of the turn logs. suspended
	// are the runs that a drain leaves alone.
	few, many, suspended int

	// signalled are the runs that are woken in a round, waiting those that wait at once, and due those that are claimed
	// one by one in a round. journal is the steps of a long run. orphans are the runs of a process that is killed, and
	// kills how often that happens.
	signalled, waiting, due, journal, orphans, kills int

	// talks are the sessions of an agent, and loops those that run at once.
	talks, loops int
	// paused are the sessions of an agent that wait, among others that do not. branched are the messages of a branch.
	paused, others, branched int

	// small and large are the turns of the tables that are compared by size. If large is 0, this comparison is left
	// out.
	small, large int
	// buffers are PostgreSQL's shared buffers, for both tables.
	buffers string
}

var (
	full = scale{
		rounds: 7, round: 1500 * time.Millisecond, slices: 6, sessions: 128, keep: 50,
		young: 100, old: 4700, span: 300, kept: 2000, listed: 10_000, turns: 100,
		few: 1000, many: 1_000_000, suspended: 10_000,
		talks: 16, loops: 1000, paused: 100_000, others: 900_000, branched: 10_000,
		signalled: 200, waiting: 10_000, due: 20_000, journal: 1000, orphans: 200, kills: 3,
		small: 1_000_000, buffers: "1GB",
	}
	brief = scale{
		rounds: 1, round: 20 * time.Millisecond, slices: 1, sessions: 32, keep: 5,
		young: 10, old: 20, span: 5, kept: 20, listed: 200, turns: 10,
		few: 10, many: 1000, suspended: 20,
		talks: 2, loops: 20, paused: 200, others: 400, branched: 40,
		signalled: 3, waiting: 50, due: 500, journal: 10, orphans: 5, kills: 1,
		small: 4000, large: 8000, buffers: "16MB",
	}
)

// A launcher starts a server. It returns the server's URL and a function that stops the server.
type launcher func(*testenv.Options) (url string, stop func() error, err error)

// A bench measures, and keeps the results.
type bench struct {
	scale
	judge           bool
	dir             string // for databases in files
	postgres, redis launcher
	log             func(format string, args ...any)

	results []result
	facts   []string
}

// A suite measures contests that share their servers.
type suite struct {
	name    string
	measure func(*bench, context.Context) error
}

// slowDisk ends the names of the suites that need a compiler.
const slowDisk = "slow-disk"

var suites = []suite{
	{"postgres", (*bench).postgresTurns},
	{"postgres-" + slowDisk, (*bench).slowDiskTurns},
	{"postgres-long-session", (*bench).postgresHistory},
	{"postgres-large", (*bench).postgresLarge},
	{"redis", (*bench).redisTurns},
	{"redis-long-session", (*bench).redisHistory},
	{"sqlite", (*bench).sqliteTurns},
	{"sqlite-long-session", (*bench).sqliteHistory},
	{"listing", (*bench).listing},
	{"postgres-runs", (*bench).postgresRuns},
	{"postgres-functions", (*bench).postgresFunctions},
	{"postgres-leases", (*bench).postgresLeases},
	{"redis-runs", (*bench).redisRuns},
	{"locks", (*bench).locks},
	{"engine", (*bench).engine},
	{"engine-postgres", (*bench).enginePostgres},
	{"engine-" + slowDisk, (*bench).engineSlowDisk},
	{"effects-postgres", (*bench).effectsPostgres},
	{"effects-" + slowDisk, (*bench).effectsSlowDisk},
	{"effects-sqlite", (*bench).effectsSQLite},
	{"effects-finished", (*bench).effectsFinished},
	{"suspended", (*bench).suspendedRuns},
	{"http-postgres", (*bench).httpPostgres},
	{"http-sqlite", (*bench).httpSQLite},
	{"turnlog-postgres", (*bench).logPostgres},
	{"turnlog-" + slowDisk, (*bench).logSlowDisk},
	{"turnlog-many", (*bench).loggedTurns},
	{"streams-postgres", (*bench).streamsPostgres},
	{"streams-redis", (*bench).streamsRedis},
	{"streams-sqlite", (*bench).streamsSQLite},
	{"workflows-postgres", (*bench).workflowsPostgres},
	{"workflows-" + slowDisk, (*bench).workflowsSlowDisk},
	{"workflows-elsewhere", (*bench).workflowsElsewhere},
	{"workflows-sqlite", (*bench).workflowsSQLite},
	{"workflows-signals", (*bench).workflowsSignals},
	{"workflows-journal", (*bench).workflowsJournal},
	{"workflows-publish", (*bench).workflowsPublish},
	{"workflows-waiting", (*bench).workflowsWaiting},
	{"workflows-finished", (*bench).workflowsFinished},
	{"workflows-takeover", (*bench).workflowsTakeover},
	{"workflows-input", (*bench).workflowsInput},
	{"agents-postgres", (*bench).agentsPostgres},
	{"agents-writes", (*bench).agentsWrites},
	{"agents-heap", (*bench).agentsHeap},
	{"agents-waiting", (*bench).agentsWaiting},
	{"agents-branch", (*bench).agentsBranch},
	{"agents-answered", (*bench).agentsAnswered},
	{"agents-elsewhere", (*bench).agentsElsewhere},
}

// run measures the wanted suites. If one fails, the others are measured all the same.
func (b *bench) run(ctx context.Context, wanted *regexp.Regexp) error {
	b.machine()
	var errs []error
	for _, s := range suites {
		if !wanted.MatchString(s.name) {
			continue
		}
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
		b.log("%s", s.name)
		if err := s.measure(b, ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(append(errs, b.missed())...)
}

// missed names the goals that were not reached.
func (b *bench) missed() error {
	var errs []error
	for _, r := range b.results {
		if b.judge && !r.goal.met(r) {
			errs = append(errs,
				fmt.Errorf("missed: %s, %d workers: %s, goal %s", r.what, r.workers, r.goal.measured(r), r.goal))
		}
	}
	return errors.Join(errs...)
}

// fact adds a line to the report's part about the machine.
func (b *bench) fact(format string, args ...any) {
	if fact := fmt.Sprintf(format, args...); !slices.Contains(b.facts, fact) {
		b.facts = append(b.facts, fact)
	}
}
