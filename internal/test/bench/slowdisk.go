package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// syncDelay is how much longer each fsync and fdatasync takes on the slow disk.
const syncDelay = time.Millisecond

//go:embed shim/slowdisk.c
var shim []byte

func (b *bench) slowDiskTurns(ctx context.Context) error {
	return b.withSlowDisk(ctx, func(pool *pgxpool.Pool, store *pgcheckpoint.Store, described string) error {
		if err := b.describe(ctx, pool, described); err != nil {
			return err
		}
		goals := map[int]goal{1: atLeast(1.7), 8: atLeast(1.45), mostWorkers: atLeast(1.1)}
		return b.compareTurns(ctx, "PostgreSQL, slow disk", pool, store, goals, goal{})
	})
}

// withSlowDisk runs f with a PostgreSQL on a slow disk, and with words that describe the disk.
func (b *bench) withSlowDisk(
	ctx context.Context, f func(pool *pgxpool.Pool, store *pgcheckpoint.Store, described string) error,
) error {
	dir, err := os.MkdirTemp("", "holdfast-slowdisk-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the temporary directory
	library, err := buildShim(ctx, dir)
	if err != nil {
		return err
	}
	o := testenv.Options{Env: []string{
		"LD_PRELOAD=" + library,
		fmt.Sprintf("SLOWDISK_US=%d", syncDelay.Microseconds()),
	}}
	return b.withPostgres(ctx, o, func(pool *pgxpool.Pool, store *pgcheckpoint.Store) error {
		if err := slow(ctx, pool); err != nil {
			return err
		}
		return f(pool, store, fmt.Sprintf("; slow disk: fsync and fdatasync delayed by %v", syncDelay))
	})
}

// buildShim compiles the library that slows down a server. The server preloads the library, and may run as another
// user.
func buildShim(ctx context.Context, dir string) (library string, err error) {
	source, library := filepath.Join(dir, "slowdisk.c"), filepath.Join(dir, "slowdisk.so")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(source, shim, 0o644)); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(
		ctx, "gcc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl",
	).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return library, nil
}

// slow makes sure that the server feels the delay.
func slow(ctx context.Context, pool *pgxpool.Pool) error {
	const commits = 20
	if _, err := pool.Exec(ctx, `CREATE TABLE feel (n integer)`); err != nil {
		return err
	}
	start := time.Now()
	for n := range commits {
		if _, err := pool.Exec(ctx, `INSERT INTO feel VALUES ($1)`, n); err != nil {
			return err
		}
	}
	if took := time.Since(start); took < commits*syncDelay {
		return fmt.Errorf("the server does not feel the delay: %d commits took %v", commits, took)
	}
	return nil
}
