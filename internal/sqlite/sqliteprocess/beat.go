package sqliteprocess

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
)

const (
	// beatSQL begins with another number after each rest.
	beatSQL = `
		INSERT INTO {prefix}beats (process, beats, at) VALUES (?1, ?2, ?2)
		ON CONFLICT (process) DO UPDATE SET beats = beats + 1, at = ?2
		RETURNING beats`

	// silentSQL removes dead processes.
	silentSQL = `DELETE FROM {prefix}beats WHERE at < ?1`
	lookSQL   = `SELECT process, beats FROM {prefix}beats`
)

// Beat is two statements, or one if process is "". Its commit does not wait for the disk.
func (p *Processes) Beat(ctx context.Context, process string) (beats map[string]int64, err error) {
	st, err := p.db.Start(ctx, lock.ValidateBeat(process))
	if err == nil && process != "" {
		err = p.db.WriteLightly(ctx, func(conn *sql.Conn) error { return p.beat(ctx, conn, process) })
	}
	var all []tally
	if err == nil {
		rows, e := st[lookSQL].QueryContext(ctx)
		all, err = sqlitestore.Collect(rows, e, scanBeats)
	}
	if err != nil {
		return nil, fmt.Errorf("sqliteprocess: beat: %w", p.db.Explain(ctx, err))
	}
	beats = make(map[string]int64, len(all))
	for _, b := range all {
		beats[b.process] = b.n
	}
	return beats, nil
}

// tally is how often one process has beaten.
type tally struct {
	process string
	n       int64
}

func scanBeats(rows *sql.Rows) (b tally, err error) {
	err = rows.Scan(&b.process, &b.n)
	return b, err
}

func (p *Processes) beat(ctx context.Context, conn *sql.Conn, process string) error {
	now := time.Now()
	var n int64
	err := conn.QueryRowContext(ctx, p.db.SQL(beatSQL), process, now.UnixMicro()).Scan(&n)
	if err != nil || n != now.UnixMicro() {
		return err
	}
	_, err = conn.ExecContext(ctx, p.db.SQL(silentSQL), now.Add(-lock.Silence).UnixMicro())
	return err
}
