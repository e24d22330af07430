package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/store"
)

// check says whether the schema and a Redis are fit.
func check(ctx context.Context, p *program, _ []string, _ *extras) error {
	if tables := p.databases.tables(); tables != nil {
		err := tables.Check(ctx)
		if errors.Is(err, migrations.ErrBehind) {
			err = ours(ctx, tables, err)
		}
		if err != nil {
			return err
		}
	}
	if rd := p.databases.redis; rd != nil {
		if err := rd.Check(ctx); err != nil {
			return err
		}
	}
	return p.value(map[string]bool{"fit": true}, func() {
		fmt.Fprintln(p.out, "fit: the schema is that of this version")
	})
}

func migrate(ctx context.Context, p *program, _ []string, _ *extras) error {
	tables := p.databases.tables()
	if tables == nil {
		return usage("a Redis has no schema")
	}
	if err := tables.Up(ctx); err != nil {
		return err
	}
	return p.value(map[string]bool{"migrated": true}, func() { fmt.Fprintln(p.out, "the schema is up to date") })
}

// sweep sweeps each database until nothing is left.
func sweep(ctx context.Context, p *program, _ []string, x *extras) error {
	if x.doubt > 0 {
		if err := p.sure("sessions idle for " + x.doubt.String() + " go with all their turns"); err != nil {
			return err
		}
	}
	total := 0
	for _, one := range p.sweepers(x.doubt) {
		for {
			n, err := one.Sweep(ctx, sweepPage)
			total += n
			if err != nil {
				return err
			}
			if n < sweepPage {
				break
			}
		}
	}
	return p.value(map[string]int{"retired": total}, func() { fmt.Fprintln(p.out, total, "retired") })
}

// sweepPage is how much one call retires.
const sweepPage = 1000

// sweepers returns the databases, made for this age of sessions.
func (p *program) sweepers(older time.Duration) (all []store.Sweeper) {
	d := &p.databases
	if d.postgres != nil {
		all = append(all, postgres.New(d.pool, &postgres.Options{
			Prefix: p.prefix, Ages: postgres.Ages{Sessions: older},
		}))
	}
	if d.sqlite != nil {
		all = append(all, sqlite.New(d.file, &sqlite.Options{Prefix: p.prefix, Ages: sqlite.Ages{Sessions: older}}))
	}
	if d.redis != nil {
		all = append(all, d.redis)
	}
	return all
}

// raise ends all owners, in the order that docs/operations.md wants: what has the runs, before what has the turns.
func raise(ctx context.Context, p *program, _ []string, x *extras) error {
	var lost time.Time
	if x.lost != "" {
		var err error
		if lost, err = time.Parse(time.RFC3339, x.lost); err != nil {
			return usage("-lost %q is no time as 2026-11-28T15:04:05Z", x.lost)
		}
	}
	if err := p.sure("runs at work end, and effects are in doubt for " + x.doubt.String()); err != nil {
		return err
	}
	type raiser interface {
		Raise(ctx context.Context, lost time.Time, doubt time.Duration) error
	}
	d := &p.databases
	var all []raiser
	if d.redis != nil {
		all = append(all, d.redis)
	}
	if d.postgres != nil {
		all = append(all, d.postgres)
	}
	if d.sqlite != nil {
		all = append(all, d.sqlite)
	}
	if d.redis != nil && len(all) > 1 && strings.Contains(p.onRedis, "turns") {
		all[0], all[1] = all[1], all[0]
	}
	for _, one := range all {
		if err := one.Raise(ctx, lost, x.doubt); err != nil {
			return fmt.Errorf("some may be raised: call it again: %w", err)
		}
	}
	return p.value(map[string]bool{"raised": true}, func() {
		fmt.Fprintln(p.out, "raised: no owner of before writes any more. Let traffic in, and look at holdfast effects")
	})
}

// completion prints a script that completes the words of the command line.
func completion(_ context.Context, p *program, args []string, _ *extras) error {
	shell := ""
	if len(args) > 0 {
		shell = args[0]
	}
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	all := strings.Join(names, " ")
	switch shell {
	case "bash":
		fmt.Fprintf(p.out, "complete -W %q holdfast\n", all)
	case "zsh":
		fmt.Fprintf(p.out, "#compdef holdfast\n_holdfast() { compadd %s }\ncompdef _holdfast holdfast\n", all)
	case "fish":
		fmt.Fprintf(p.out, "complete -c holdfast -f -a %q\n", all)
	default:
		return usage("holdfast completion bash, zsh or fish")
	}
	return nil
}
