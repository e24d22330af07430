package main

import (
	"bufio"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/postgres"
)

// LangGraph, as npm fetches it, and a program that plays turns with it.
var (
	//go:embed langgraph/package.json
	langGraphPackage []byte
	//go:embed langgraph/package-lock.json
	langGraphLock []byte
	//go:embed langgraph/turns.mjs
	langGraphTurns []byte
)

const langGraphVersion = "1.4.18"

// agentsElsewhere measures turns of an agent against the same turns with LangGraph JS and its PostgresSaver. Both have
// 100 messages, and a pool of their own. The tool of LangGraph always has an effect: it counts. LangGraph writes the
// same with and without an effect.
func (b *bench) agentsElsewhere(ctx context.Context) error {
	dir, err := fetchLangGraph(ctx)
	if err != nil {
		return err
	}
	return b.withWorkflows(ctx, testenv.Options{}, func(pool *pgxpool.Pool, _ *postgres.DB) error {
		if err := b.describe(ctx, pool, ""); err != nil {
			return err
		}
		for _, c := range []struct {
			durability string
			effect     bool
			goal       goal
		}{{"sync", false, atLeast(6)}, {"sync", true, atLeast(6)}, {"exit", false, atLeast(4)}} {
			if err := b.compareLangGraph(ctx, pool, dir, c.durability, c.effect, c.goal); err != nil {
				return fmt.Errorf("%s: %w", c.durability, err)
			}
		}
		return nil
	})
}

func (b *bench) compareLangGraph(
	ctx context.Context, pool *pgxpool.Pool, dir, durability string, effect bool, g goal,
) (err error) {
	st := agentStores(pool)
	const messages = 100
	what := fmt.Sprintf("PostgreSQL, agent, %d messages", messages)
	if effect {
		what += ", with an effect"
	}
	some, err1 := newTalker(st, messages, window, b.talks, effect)
	all, err2 := newTalker(st, messages, 0, b.talks, effect)
	theirs, err3 := startLangGraph(ctx, dir, pool.Config().ConnString(), durability)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, theirs.stop()) }()
	for _, workers := range []int{1, 8} {
		if workers > 1 {
			g = goal{}
		}
		rota := newRota(b.talks, min(workers, b.talks))
		err := b.compete(ctx, contest{
			what: what, workers: rota.workers,
			reference: subject{
				name: fmt.Sprintf("LangGraph JS %s, %s", langGraphVersion, durability), op: rota.on(theirs.play),
			},
			subjects: []subject{
				{name: fmt.Sprintf("window of %d", window), op: rota.on(some.play), goal: g},
				{name: "all of them", op: rota.on(all.play), goal: g},
			},
			between: func(ctx context.Context) error {
				return errors.Join(renewAll(pool, some, all)(ctx), theirs.renew(ctx, b.talks, messages))
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchLangGraph fetches LangGraph with npm into the user's cache, if the cache lacks it.
func fetchLangGraph(ctx context.Context) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "holdfast", "langgraph-"+langGraphVersion)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{
		"package.json": langGraphPackage, "package-lock.json": langGraphLock, "turns.mjs": langGraphTurns,
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "pg")); err == nil {
		return dir, nil
	}
	cmd := exec.CommandContext(
		ctx, "npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("npm ci: %w", err)
	}
	return dir, nil
}

// A langGraph plays turns in a process of its own.
type langGraph struct {
	prefix string // of its sessions: another process of the same database must not go on with them
	chats  []chat
	cmd    *exec.Cmd
	in     io.WriteCloser
	born   atomic.Int64

	mu      sync.Mutex // protects in, and the following fields
	number  int
	waiting map[int]chan error
	ended   error
}

// An order is a turn to play. If the session has none yet, Before has what was said.
type order struct {
	Number  int    `json:"number"`
	Session string `json:"session"`
	Before  []chat `json:"before,omitempty"`
	Chat    chat   `json:"chat"`
}

func startLangGraph(ctx context.Context, dir, url, durability string) (*langGraph, error) {
	l := &langGraph{prefix: rand.Text()[:8], chats: chats(), waiting: make(map[int]chan error)}
	l.cmd = exec.CommandContext(ctx, "node", "turns.mjs", url, durability)
	l.cmd.Dir, l.cmd.Stderr = dir, os.Stderr
	var err1, err2 error
	l.in, err1 = l.cmd.StdinPipe()
	out, err2 := l.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, l.cmd.Start()); err != nil {
		return nil, err
	}
	go l.listen(out)
	return l, nil
}

// listen tells the callers what the process answers, until it ends.
func (l *langGraph) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var done struct {
			Number int
			Error  string
		}
		err := json.Unmarshal(lines.Bytes(), &done)
		if err == nil && done.Error != "" {
			err = errors.New(done.Error)
		}
		l.mu.Lock()
		if c := l.waiting[done.Number]; c != nil {
			c <- err
			delete(l.waiting, done.Number)
		}
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = errors.New("LangGraph has ended")
	for _, c := range l.waiting {
		c <- l.ended
	}
}

// obey returns when the process has obeyed.
func (l *langGraph) obey(ctx context.Context, session string, before []chat) error {
	done := make(chan error, 1)
	l.mu.Lock()
	l.number++
	l.waiting[l.number] = done
	line, err := json.Marshal(order{
		l.number, fmt.Sprintf("%s/%d/%s", l.prefix, l.born.Load(), session), before, l.chats[l.number%len(l.chats)],
	})
	if err == nil {
		err = l.ended
	}
	if err == nil {
		_, err = l.in.Write(append(line, '\n'))
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *langGraph) play(ctx context.Context, session string) error { return l.obey(ctx, session, nil) }

// renew makes new sessions, and plays a turn of each.
func (l *langGraph) renew(ctx context.Context, sessions, messages int) error {
	l.born.Add(1)
	return inParallel(sessions, func(i int) error {
		var before []chat
		for n := range messages / 4 {
			before = append(before, l.chats[n%len(l.chats)])
		}
		return l.obey(ctx, sessionName(i), before)
	})
}

func (l *langGraph) stop() error { return errors.Join(l.in.Close(), l.cmd.Wait()) }
