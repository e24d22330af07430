package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ops"
	"github.com/holdfast-go/holdfast/store"
)

// A program is one call of the command.
type program struct {
	out, err io.Writer
	env      func(string) string

	settings
	databases databases
	room      *ops.Room
}

// settings are the flags that every command takes.
type settings struct {
	db, redis, sqlite, prefix, onRedis string
	bot, by                            string
	json, yes, reveal                  bool
	timeout                            time.Duration
	limit                              int
}

// A command is one word of the command line.
type command struct {
	name, args, help string

	// acts says that the command changes what is stored. A newer schema than the program knows is refused then.
	acts bool

	// bare says that the command opens no database by itself.
	bare bool

	// flags adds flags of its own.
	flags func(*flag.FlagSet, *extras)
	run   func(ctx context.Context, p *program, args []string, x *extras) error
}

// extras are the flags that some commands take.
type extras struct {
	status, label, session, after, run, reason, result, sum, id, lost string
	landed, notLanded, skip, sure, owing, all                         bool
	doubt                                                             time.Duration
	from                                                              int64
}

// errUsage is an error of the command line.
var errUsage = errors.New("usage")

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// run runs one command line, and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	err := p.command(ctx, args)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	code, line := explain(err)
	if line != "" {
		fmt.Fprintln(p.err, "holdfast: "+line)
	}
	return code
}

func (p *program) command(ctx context.Context, args []string) (err error) {
	p.settings = settings{
		db: p.env("DATABASE_URL"), redis: p.env("REDIS_URL"), onRedis: "runs,stream,inbox", by: whoami(),
		timeout: time.Minute, limit: 50,
	}
	global := p.flagSet("holdfast")
	if err := global.Parse(args); err != nil {
		return flagError(err)
	}
	if global.NArg() == 0 || global.Arg(0) == "help" {
		p.help(global)
		return nil
	}
	c := find(global.Arg(0))
	if c == nil {
		return usage("there is no command %q: run holdfast for a list", global.Arg(0))
	}
	own, x := p.flagSet("holdfast "+c.name), new(extras)
	if c.flags != nil {
		c.flags(own, x)
	}
	own.Usage = func() { p.helpOn(c, own) }
	words, err := words(own, global.Args()[1:])
	if err != nil {
		return err
	}
	if least := strings.Count(c.args, "ID") + strings.Count(c.args, "NAME"); len(words) < least {
		return usage("holdfast %s %s", c.name, c.args)
	}
	if c.bare {
		return c.run(ctx, p, words, x)
	}
	if p.timeout > 0 && c.name != "tail" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	if err := p.open(ctx, c); err != nil {
		return err
	}
	defer func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = p.room.Close(within)
		p.databases.close()
	}()
	return c.run(ctx, p, words, x)
}

// flagSet returns the flags that every command takes, with the values that they have so far.
func (p *program) flagSet(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard) // an error is one line, which run prints
	f.Usage = func() {}
	s := &p.settings
	// An address may have a password, which a help must not show as a default.
	f.Func("db", "`URL` of a PostgreSQL; $DATABASE_URL", func(url string) error { s.db = url; return nil })
	f.Func("redis", "`URL` of a Redis; $REDIS_URL", func(url string) error { s.redis = url; return nil })
	f.StringVar(&s.sqlite, "sqlite", s.sqlite, "`FILE` of an SQLite database, in place of -db")
	f.StringVar(&s.onRedis, "on-redis", s.onRedis,
		"what the Redis keeps if there is another database: `LIST` of runs, stream, inbox, turns, transcripts")
	f.StringVar(&s.prefix, "prefix", s.prefix, "`PREFIX` of the tables or keys, if it is not holdfast_ or holdfast:")
	f.StringVar(&s.bot, "bot", s.bot, "`NAME` of the bot; without it, all bots are looked at")
	f.StringVar(&s.by, "by", s.by, "`NAME` of who acts")
	f.BoolVar(&s.json, "json", s.json, "print JSON: one value a line")
	f.BoolVar(&s.yes, "yes", s.yes, "do what destroys something")
	f.BoolVar(&s.reveal, "reveal", s.reveal, "print what users said, states and results too")
	f.DurationVar(&s.timeout, "timeout", s.timeout, "how long the command may take; 0 is for ever")
	f.IntVar(&s.limit, "n", s.limit, "how many `LINES` a list has at most; of runs, of each bot")
	return f
}

// words parses the flags between and after the words, which package flag does not.
func words(f *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := f.Parse(args); err != nil {
			return nil, flagError(err)
		}
		if f.NArg() == 0 {
			return words, nil
		}
		words = append(words, f.Arg(0))
		args = f.Args()[1:]
	}
}

func flagError(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return usage("%v", err)
}

// whoami returns who acts, if nobody says so.
func whoami() string {
	host, _ := os.Hostname()
	u, err := user.Current()
	if err != nil {
		return cmp.Or(host, "unknown")
	}
	return u.Username + "@" + host
}

// options are those of the room.
func (p *program) options() *ops.Options {
	level := slog.LevelError // an act that is not done is the one line of error of this program
	if p.env("HOLDFAST_LOG") != "" {
		level = slog.LevelInfo
	}
	return &ops.Options{
		Waiting: agent.LabelWaiting, Desk: agent.Desk,
		Logger: slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: level})),
	}
}

// session returns the key of the session that a word of the command line names.
func (p *program) session(ctx context.Context, name string) (store.Key, error) {
	if p.bot != "" {
		return store.Key{Orchestrator: p.bot, Session: name}, nil
	}
	found, err := p.room.Find(ctx, name)
	if err != nil {
		return store.Key{}, err
	}
	if len(found) > 1 {
		var bots []string
		for _, k := range found {
			bots = append(bots, k.Orchestrator)
		}
		return store.Key{}, usage("session %q is of the bots %s: name one by -bot", name, strings.Join(bots, ", "))
	}
	return found[0], nil
}

// sure returns an error unless -yes was given.
func (p *program) sure(what string) error {
	if p.yes {
		return nil
	}
	return usage("%s: it cannot be undone; add -yes", what)
}

func find(name string) *command {
	i := slices.IndexFunc(commands(), func(c command) bool { return c.name == name })
	if i < 0 {
		return nil
	}
	return &commands()[i]
}
