package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/stream"
)

var chunks = contract{
	name: "stream",
	open: func(db *sql.DB, o options) store {
		return streamStore{sqlitestream.New(db, &sqlitestream.Options{Prefix: o.prefix})}
	},
	tables:  []string{"holdfast_streams", "holdfast_chunks"},
	longest: "streams",
	schema:  stream.ErrSchema, damaged: stream.ErrDamaged, refused: stream.ErrRefused,
	one: func(error) bool { return false }, verdicts: []error{stream.ErrInvalid, stream.ErrGone},
	missing: []missing{
		{"table", "DROP TABLE holdfast_streams", "table holdfast_streams", ""},
		{"chunks", "DROP TABLE holdfast_chunks", "table holdfast_chunks", "Last Sweep Delete"},
		{
			"column", "ALTER TABLE holdfast_chunks DROP COLUMN run", "column run of table holdfast_chunks",
			"Last Sweep Delete",
		},
	},
	lists: func(t *testing.T, of store) []list {
		s := of.(streamStore)
		for range 100 {
			want(t, s.add(t.Context(), "a", 1, stream.Ended, 10), nil)
		}
		name := func(i int) string { return fmt.Sprint("chunk ", i+1) }
		return []list{{
			"all", named(s.Read(t.Context(), bot("a"), 0), func(c stream.Chunk) string {
				return fmt.Sprint("chunk ", c.Seq)
			}), 1000, name,
			func(ctx context.Context, i int) error { return s.add(ctx, "b", 1, stream.Active, 1) },
		}}
	},
	contend:   contendForStream,
	processes: streamProcesses,
}

type streamStore struct{ *sqlitestream.Store }

func (s streamStore) add(ctx context.Context, session string, epoch int64, status stream.Status, n int) error {
	docs := make([]json.RawMessage, n)
	for i := range docs {
		docs[i] = json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
	}
	_, err := s.Append(ctx, bot(session), fmt.Sprint("r-", epoch), epoch, status, docs)
	return err
}

var streamed atomic.Int64

func (s streamStore) all(ctx context.Context) map[string]error {
	session := fmt.Sprint("all", streamed.Add(1))
	k := bot(session)
	errs := make(map[string]error)
	errs["Append"] = s.add(ctx, session, 1, stream.Ended, 2)
	_, _, _, errs["Last"] = s.Last(ctx, k)
	errs["Read"] = errors.Join(yielded(s.Read(ctx, k, stream.Newest)), yielded(s.Read(ctx, k, 0)))
	_, errs["Sweep"] = s.Sweep(ctx, 10)
	errs["Delete"] = s.Delete(ctx, k)
	return errs
}

func (s streamStore) ready(t *testing.T) []call {
	want(t, s.add(t.Context(), "a", 1, stream.Ended, 2), nil)
	k := bot("a")
	return []call{
		{do: func(ctx context.Context) error { return s.add(ctx, "a", 1, stream.Ended, 2) }},
		{do: func(ctx context.Context) error { return s.Delete(ctx, k) }},
		{reads: true, do: func(ctx context.Context) error { return yielded(s.Read(ctx, k, 0)) }},
	}
}

func (s streamStore) cut(t *testing.T, _ *sql.DB, n int) cut {
	session := fmt.Sprint("s", n)
	return cut{
		func(ctx context.Context) error { return s.add(ctx, session, 1, stream.Ended, 3) }, "last 0", "last 3",
		func() string {
			last, _, _, err := s.Last(t.Context(), bot(session))
			want(t, err, nil)
			return fmt.Sprint("last ", last)
		},
	}
}

const ownedTurns = 60

// contendForStream is an owner of one session, which others supersede and it supersedes again. Each Append has a higher
// epoch than all before it had when it began.
func contendForStream(db *sql.DB, _ func(any)) error {
	s := streamStore{sqlitestream.New(db, nil)}
	for range ownedTurns {
		if err := s.add(context.Background(), "shared", time.Now().UnixNano(), stream.Active, 3); err != nil {
			return err
		}
	}
	return nil
}

// Processes append to one session, while readers of another process wait. The numbers have no gaps, no chunk of a
// former owner follows those of its successor, and each reader gets all.
func streamProcesses(t *testing.T, of store, _ *sql.DB, dsn string) {
	s := of.(streamStore)
	want(t, s.add(t.Context(), "shared", 1, stream.Active, 1), nil)
	read := make(chan []stream.Chunk, 4)
	for range cap(read) {
		go func() {
			var all []stream.Chunk
			for c, err := range s.Read(t.Context(), bot("shared"), 0) {
				if err != nil {
					t.Error(err)
					break
				}
				all = append(all, c)
			}
			read <- all
		}()
	}
	contended(t, "stream", dsn, 3, func(any) {})
	want(t, s.add(t.Context(), "shared", math.MaxInt64, stream.Ended, 1), nil)
	last, _, _, err := s.Last(t.Context(), bot("shared"))
	want(t, err, nil)
	for range cap(read) {
		all := <-read
		if int64(len(all)) != last || len(all) < 3*ownedTurns {
			t.Errorf("a reader gets %d chunks, want %d", len(all), last)
		}
		newest := ""
		for i, c := range all {
			if c.Seq != int64(i+1) {
				t.Fatalf("chunk %d has the number %d", i+1, c.Seq)
			}
			if c.Run != "r-1" && c.Run < newest {
				t.Fatalf("chunk %d is of %s, after one of %s", c.Seq, c.Run, newest)
			}
			if c.Run != "r-1" {
				newest = c.Run
			}
		}
	}
}
