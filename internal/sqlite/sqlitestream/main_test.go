package sqlitestream_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
)

func TestMain(m *testing.M) { sqlitetest.Main(m, map[string]sqlitetest.Role{"own": own}) }

const (
	processes = 3
	turns     = 60
)

// own is an owner of one session, which others supersede and it supersedes again. Each Append has a higher epoch than
// all before it had when it began.
func own(dsn string, out io.Writer) error {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	s := sqlitestream.New(db, nil)
	ctx := context.Background()
	for range turns {
		epoch := time.Now().UnixNano()
		last, err := s.Append(ctx, key("shared"), fmt.Sprint("r-", epoch), epoch, stream.Active, docs(3))
		if err != nil {
			return err
		}
		fmt.Fprintln(out, last)
	}
	return nil
}

// Processes append to one session, while readers of another process wait. The numbers have no gaps, no chunk of a
// former owner follows those of its successor, and each reader gets all.
func TestProcesses(t *testing.T) {
	t.Parallel()
	dsn := testenv.SQLite(t)
	s := create(t, sqlitetest.Open(t, dsn), nil)
	add(t, s, key("shared"), 1, stream.Active, 1)
	read := make(chan []stream.Chunk, 4)
	for range cap(read) {
		go func() {
			var all []stream.Chunk
			for c, err := range s.Read(t.Context(), key("shared"), 0) {
				if err != nil {
					t.Error(err)
					break
				}
				all = append(all, c)
			}
			read <- all
		}()
	}
	var children []sqlitetest.Child
	for range processes {
		children = append(children, sqlitetest.Start(t, "own", dsn))
	}
	for _, c := range children {
		for c.Out.Scan() {
		}
		if err := c.Cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	last := add(t, s, key("shared"), time.Now().UnixNano(), stream.Ended, 1)
	for range cap(read) {
		all := <-read
		if int64(len(all)) != last || len(all) < 3*turns {
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
