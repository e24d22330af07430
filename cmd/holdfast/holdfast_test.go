package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/bottest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/redis"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/workflow"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// built builds the command once.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "holdfast")
	out, err := exec.Command("go", "build", "-o", file, ".").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return file, err
})

// A site is a service on a database, and the command beside it.
type site struct {
	bottest.Shop
	flags     []string
	stream    stream.Store
	inbox     inbox.Store
	said      transcript.Store
	log       turnlog.Log
	workflows workflow.Store
}

// A shown is what one call of the command has printed.
type shown struct {
	code     int
	out, err string
}

// call runs the built command.
func (s *site) call(t *testing.T, args ...string) shown {
	t.Helper()
	file, err := built()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), file, append(slices.Clone(s.flags), args...)...)
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	var out, told bytes.Buffer
	c.Stdout, c.Stderr = &out, &told
	err = c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	} else if ok {
		return shown{exit.ExitCode(), out.String(), told.String()}
	}
	return shown{0, out.String(), told.String()}
}

// want calls the command, and checks its exit code, and that what it prints has each of the texts. An error is one
// line.
func (s *site) want(t *testing.T, code int, texts []string, args ...string) shown {
	t.Helper()
	got := s.call(t, args...)
	if got.code != code {
		t.Errorf("%q: exit code %d, want %d: %s%s", args, got.code, code, got.out, got.err)
	}
	if code != exitDone && strings.Count(got.err, "\n") != 1 {
		t.Errorf("%q: want one line of error, got %q", args, got.err)
	}
	for _, text := range texts {
		if !strings.Contains(got.out+got.err, text) {
			t.Errorf("%q: no %q in %s%s", args, text, got.out, got.err)
		}
	}
	return got
}

// lines decodes what -json has printed.
func lines[T any](t *testing.T, out string) (all []T) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var v T
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		all = append(all, v)
	}
	return all
}

// onEach runs a test beside a service on each kind of database.
func onEach(t *testing.T, test func(t *testing.T, s *site)) {
	for name, open := range map[string]func(t *testing.T) *site{
		"sqlite": onSQLite, "postgres": onPostgres, "redis": onRedis, "postgres and redis": onBoth,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func onSQLite(t *testing.T) *site {
	file := filepath.Join(t.TempDir(), "50% of? #1.db")
	db, err := sqlite.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	lite := sqlite.New(db, nil)
	if err := lite.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &site{
		flags: []string{"-sqlite", file}, stream: lite.Stream(), inbox: lite.Inbox(), said: lite.Transcripts(),
		log: lite.TurnLog(), workflows: lite.Workflows(),
	}
	s.World, s.Ledger = bottest.WorldOf(lite.Checkpoints(), lite.Snapshots()), lite.Ledger()
	s.Vendor = new(bottest.Vendor)
	return s
}

func onPostgres(t *testing.T) *site {
	url := testenv.PostgresSchema(t)
	return postgresSite(t, url, pgtest.PoolOn(t, url))
}

func postgresSite(t *testing.T, url string, pool *pgxpool.Pool) *site {
	t.Helper()
	pg := postgres.New(pool, nil)
	if err := pg.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &site{
		flags: []string{"-db", url}, stream: pg.Stream(), inbox: pg.Inbox(), said: pg.Transcripts(), log: pg.TurnLog(),
		workflows: pg.Workflows(),
	}
	s.World, s.Ledger, s.Vendor = bottest.WorldOf(pg.Checkpoints(), pg.Snapshots()), pg.Ledger(), new(bottest.Vendor)
	return s
}

func onRedis(t *testing.T) *site {
	server, client := redistest.Server(t, goredis.Options{})
	rd := redis.New(client, nil)
	s := &site{
		flags: []string{"-redis", server.URL}, stream: rd.Stream(), inbox: rd.Inbox(), said: rd.Transcripts(),
	}
	s.World, s.Vendor = bottest.WorldOf(rd.Checkpoints(), rd.Snapshots()), new(bottest.Vendor)
	return s
}

func onBoth(t *testing.T) *site {
	s := onPostgres(t)
	server, client := redistest.Server(t, goredis.Options{})
	rd := redis.New(client, nil)
	s.flags = append(s.flags, "-redis", server.URL)
	s.World, s.stream, s.inbox = bottest.WorldOf(s.Checkpoints, rd.Snapshots()), rd.Stream(), rd.Inbox()
	return s
}

// A parked run is found, explained, made due and ended by the command alone.
func TestParked(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		bot := s.World.Start(t, bottest.Steps(nil), bottest.Once1)
		if _, err := bot.Execute(t.Context(), "before", bottest.Input{Text: "secret"}, nil); err != nil {
			t.Fatal(err)
		}
		s.Park(t, bot)
		s.want(t, exitDone, []string{"steps", "parked"}, "runs")
		all := lines[runJSON](t, s.want(t, exitDone, nil, "-json", "runs", "-status", "parked").out)
		if len(all) != 1 || all[0].Session != "s" || all[0].Bot != "steps" {
			t.Errorf("%+v", all)
		}
		s.want(t, exitDone, []string{"without progress", "holdfast unpark s"}, "why", "s")
		s.want(t, exitDone, []string{"before"}, "sessions", "-like", "be", "-n", "5")
		got := s.want(t, exitDone, []string{"one two three"}, "show", "before")
		if strings.Contains(got.out, "secret") {
			t.Error("what a user said is shown without -reveal")
		}
		s.want(t, exitDone, []string{"secret"}, "show", "before", "-reveal")
		s.want(t, exitFindings, []string{"1 runs are parked"}, "doctor")

		s.want(t, exitDone, []string{"due again"}, "unpark", "s")
		s.want(t, exitNothing, []string{"no run is parked"}, "unpark", "s")
		s.want(t, exitDone, []string{"due now"}, "due", "s", "-bot", "steps")
		if outcome, err := bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
			t.Errorf("%s, %v", outcome, err)
		}
		s.want(t, exitNothing, nil, "abandon", "s", "-yes")
		s.want(t, exitUsage, []string{"-yes"}, "delete", "s")
		s.want(t, exitDone, nil, "-json", "delete", "-yes", "s")
		s.want(t, exitNotFound, []string{`"s"`}, "why", "s")
		s.want(t, exitNotFound, []string{`"s"`}, "delete", "s", "-yes")
	})
}

// Beside a process at work, the command says who has the session, and ends its run.
func TestBesideOwner(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		d, started := bottest.Hanging()
		bot := s.World.Start(t, d, bottest.Options{Stream: s.stream})
		if _, err := bot.Execute(t.Context(), "s", bottest.Input{Text: "quick"}, nil); err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 1)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go func() {
			_, err := bot.Execute(ctx, "s", bottest.Input{Text: "x"}, nil)
			told <- err
		}()
		<-started
		s.want(t, exitDone, []string{"running", "at work"}, "why", "s")
		s.want(t, exitDone, []string{"yes", "hang/s"}, "processes")
		s.want(t, exitHeld, []string{"owned by process"}, "skip", "s", "-run", "none", "-yes", "-timeout", "50s")
		s.want(t, exitNothing, nil, "unpark", "s")
		s.want(t, exitDone, []string{"without a turn"}, "abandon", "s", "-yes")
		if t.Failed() {
			leave()
		}
		if err := <-told; err == nil {
			t.Error("the owner has settled")
		}
		s.want(t, exitDone, []string{"turn.failed"}, "tail", "s")
		s.want(t, exitDone, []string{"no run is in flight"}, "runs")
	})
}

// Of two answers at once one is taken.
func TestEffects(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		if s.Ledger == nil {
			s.want(t, exitUsage, []string{"Ledger"}, "effects")
			return
		}
		ask := orchestrator.OnceOptions[string]{Class: ledger.Ask}
		s.Crash(t, func(die func()) bottest.Def { return bottest.Single(s.Refunds(ask, die)) },
			bottest.Input{Text: "A-1042", RequestID: "r"})
		bot := s.Start(t, bottest.Single(s.Refunds(ask, func() {})), bottest.Options{})
		_, err := bot.Resume(t.Context(), "s", nil)
		bottest.WantDoubt(t, err, true)
		all := lines[effectJSON](t, s.want(t, exitDone, nil, "-json", "effects").out)
		if len(all) != 1 || all[0].Class != "ask" || all[0].Args != nil {
			t.Fatalf("%+v", all)
		}
		s.want(t, exitDone, []string{"may have happened", "holdfast answer " + all[0].ID}, "why", "s")
		s.want(t, exitUsage, nil, "answer", all[0].ID)
		s.want(t, exitUsage, []string{"no JSON"}, "answer", all[0].ID, "-landed", "-result", "{")
		codes := make([]int, 2)
		var people sync.WaitGroup
		for i := range codes {
			people.Go(func() {
				codes[i] = s.call(t, "answer", all[0].ID, "-landed", "-result", `"receipt"`, "-by", fmt.Sprint(i)).code
			})
		}
		people.Wait()
		if slices.Sort(codes); !slices.Equal(codes, []int{exitDone, exitNothing}) {
			t.Errorf("exit codes %d", codes)
		}
		s.want(t, exitNotFound, nil, "answer", "none", "-skip")
		if _, err := bot.Resume(t.Context(), "s", nil); err != nil || s.Vendor.Count() != 1 {
			t.Errorf("paid %d times, %v", s.Vendor.Count(), err)
		}
		s.want(t, exitDone, []string{"completed"}, "effects", "-all", "-session", "s")
	})
}

// A question of an agent is answered by the command. A process that has the agent runs the answer.
func TestQuestions(t *testing.T) {
	type payment struct{ Cents int }
	onEach(t, func(t *testing.T, s *site) {
		paid := 0
		a, err := agent.New(agent.Definition[struct{}]{
			Name: "shop-agent",
			Model: scripted.New(
				scripted.On("refund", scripted.Call("refund", `{"Cents":42000}`), scripted.Say("done")),
			),
			Tools: []agent.Tool{agent.Effect[payment, string]{
				Name: "refund", Approve: func(payment) bool { return true },
				Run: func(context.Context, string, payment) (string, error) { paid++; return "paid", nil },
			}.Tool()},
		}, agent.Stores{
			Checkpoints: s.Checkpoints, Snapshots: s.Snapshots, Ledger: s.ledgerOr(), Transcript: s.said,
			Inbox: s.inbox,
		}, &orchestrator.Options{Logger: bottest.Quiet()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Say(t.Context(), "s-1", agent.Text("refund me"), nil); err != nil {
			t.Fatal(err)
		}
		all := lines[questionJSON](t, s.want(t, exitDone, nil, "-json", "questions", "-reveal").out)
		if len(all) != 1 || all[0].Session != "s-1" || !strings.Contains(string(all[0].Shown), "42000") {
			t.Fatalf("%+v", all)
		}
		id := all[0].Question
		s.want(t, exitUsage, nil, "answer", "s-1", id, "-result", `{"wrong": 1}`)
		s.want(t, exitNothing, []string{"changed"}, "answer", "s-1", id, "-result", `{"approved": true}`, "-sum", "x")
		s.want(t, exitDone, []string{"left"}, "answer", "s-1", id, "-result", `{"approved": true}`, "-by", "ann")
		s.want(t, exitNothing, nil, "answer", "s-1", id, "-result", `{"approved": false}`, "-by", "bob")
		s.want(t, exitDone, []string{"by ann"}, "questions")
		s.want(t, exitNotFound, nil, "answer", "s-1", "none", "-result", `{"approved": true}`)
		k := checkpoint.Key{Orchestrator: "shop-agent", Session: "s-1"}
		it, err := s.inbox.Item(t.Context(), k, inbox.Answer, id)
		if err != nil || it.By != "ann" || paid != 0 {
			t.Errorf("%+v, %v, paid %d times", it, err, paid)
		}
	})
}

// ledgerOr returns the ledger, or one in memory.
func (s *site) ledgerOr() ledger.Ledger {
	if s.Ledger == nil {
		return new(ledger.Memory)
	}
	return s.Ledger
}

// A run of a workflow is listed, shown, held, signalled and cancelled.
func TestWorkflows(t *testing.T) {
	onEach(t, func(t *testing.T, s *site) {
		if s.workflows == nil {
			s.want(t, exitUsage, []string{"Workflows"}, "workflows")
			return
		}
		c := workflow.NewClient(s.workflows)
		started, err := c.Start(t.Context(), "onboard", map[string]string{"who": "ann"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.want(t, exitDone, []string{started.ID, "onboard v1", "running"}, "workflows", "-status", "running")
		if got := s.want(t, exitDone, []string{"onboard"}, "show", started.ID); strings.Contains(got.out, "ann") {
			t.Error("an input is shown without -reveal")
		}
		s.want(t, exitDone, []string{"mailbox"}, "signal", started.ID, "hello", `{"n":1}`, "-id", "one")
		s.want(t, exitDone, nil, "pause", started.ID)
		s.want(t, exitDone, []string{"held"}, "workflows")
		s.want(t, exitDone, []string{started.ID, "paused"}, "why", started.ID)
		s.want(t, exitDone, nil, "resume", started.ID)
		s.want(t, exitNotFound, nil, "rewind", started.ID, "none", "-yes")
		s.want(t, exitUsage, []string{"-yes"}, "cancel", started.ID)
		s.want(t, exitDone, nil, "cancel", started.ID, "-yes")
		s.want(t, exitNothing, []string{"over"}, "cancel", started.ID, "-yes")
		s.want(t, exitNotFound, nil, "signal", "none", "hello")
	})
}

// A damaged run is listed beside the others, and ended.
func TestDamaged(t *testing.T) {
	url := testenv.PostgresSchema(t)
	pool := pgtest.PoolOn(t, url)
	s := postgresSite(t, url, pool)
	bot := s.World.Start(t, bottest.Steps(nil), bottest.Once1)
	s.Park(t, bot)
	pgtest.Exec(t, pool, "UPDATE holdfast_runs SET status = 'odd'")
	s.want(t, exitDone, []string{"damaged"}, "runs")
	s.want(t, exitDone, []string{"damaged", "holdfast abandon s"}, "why", "s")
	s.want(t, exitDone, nil, "abandon", "s", "-yes")
	s.want(t, exitDone, []string{"no run"}, "runs")
}

// A database that is none of ours, or whose schema is older or newer, is one line.
func TestSchemas(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := testenv.PostgresSchema(t)
		pool := pgtest.PoolOn(t, url)
		s := &site{flags: []string{"-db", url}}
		s.schemas(t, func(sql string) { pgtest.Exec(t, pool, sql) })
		s.want(t, exitFindings, []string{"fsync is off", "!!  schema"}, "doctor") // as tests start their server
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "other.db")
		db, err := sqlite.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s := &site{flags: []string{"-sqlite", file}}
		s.schemas(t, func(sql string) {
			if _, err := db.ExecContext(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		})
		none := &site{flags: []string{"-sqlite", file + ".none"}}
		none.want(t, exitNotFound, []string{"no file"}, "runs")
		if _, err := os.Stat(file + ".none"); err == nil {
			t.Error("a look has made a file")
		}
	})
}

func (s *site) schemas(t *testing.T, exec func(sql string)) {
	exec("CREATE TABLE other (n integer)")
	for _, args := range [][]string{{"runs"}, {"why", "s"}, {"unpark", "s"}, {"check"}} {
		s.want(t, exitSchema, []string{"no tables of Holdfast"}, args...)
	}
	s.want(t, exitDone, nil, "migrate")
	s.want(t, exitDone, []string{"fit"}, "check")
	s.want(t, exitDone, []string{"no run is in flight"}, "runs")
	s.want(t, map[bool]int{true: exitFindings, false: exitDone}[s.flags[0] == "-db"], []string{"ok  schema"}, "doctor")
	s.want(t, exitDone, []string{"0 retired"}, "sweep")
	s.want(t, exitUsage, []string{"-yes"}, "sweep", "-older", "1h")
	s.want(t, exitUsage, []string{"-yes"}, "raise")
	s.want(t, exitUsage, []string{"no time"}, "raise", "-yes", "-lost", "yesterday")
	s.want(t, exitDone, []string{"raised"}, "raise", "-yes", "-lost", "2026-11-28T15:04:05Z", "-doubt", "1h")

	exec("INSERT INTO holdfast_schema_version (version_id, is_applied) VALUES (9999, true)")
	s.want(t, exitDone, []string{"warning", "9999"}, "runs")
	s.want(t, exitSchema, []string{"9999", "that version"}, "unpark", "s")
	s.want(t, exitSchema, []string{"9999"}, "check")
	exec("DROP TABLE holdfast_inbox")
	s.want(t, exitSchema, []string{"holdfast migrate"}, "runs")
}

// Every command has a help, and a wrong line is one line.
func TestLine(t *testing.T) {
	s := new(site)
	s.want(t, exitDone, []string{"Commands:", "Exit codes:"})
	for _, c := range commands() {
		s.want(t, exitDone, []string{c.help}, c.name, "-h")
		if least := strings.Count(c.args, "ID"); least > 0 {
			s.want(t, exitUsage, nil, c.name)
		}
	}
	s.want(t, exitUsage, []string{"no command"}, "rnus")
	s.want(t, exitUsage, nil, "runs", "-nope")
	s.want(t, exitUsage, []string{"no database"}, "runs")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		s.want(t, exitDone, []string{"unpark"}, "completion", shell)
	}
	away := &site{flags: []string{"-db", "postgres://me:hush@127.0.0.1:1/db?connect_timeout=1"}}
	for _, args := range [][]string{{"runs"}, {"help"}, {"runs", "-h"}} {
		if got := away.call(t, args...); strings.Contains(got.out+got.err, "hush") {
			t.Errorf("%q: the password is in %s%s", args, got.out, got.err)
		}
	}
	away.want(t, exitAway, nil, "runs")
}
