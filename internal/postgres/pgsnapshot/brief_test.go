package pgsnapshot_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
)

// inFlightSQL makes runs in flight with a payload that is out of line.
const inFlightSQL = `
	ALTER TABLE {runs} ALTER COLUMN payload SET STORAGE EXTERNAL;
	INSERT INTO {runs} (orchestrator, session, epoch, nonce, found, id, status, seq, turn, attempt, parts, payload_version,
		started_at, saved_at, request_id, base, error, payload)
	SELECT 'bot', 's' || lpad(i::text, 6, '0'), 1, 'n', 0, 'run', 'running', 1, 1, 1, false, 1, now(), now(), '', '', '',
		to_jsonb(repeat('x', 5000))
	FROM generate_series(1, 1001) i`

// A brief list reads no payload, and takes one statement for a thousand runs. A list of runs that wait for a person
// reads no payload either.
func TestBriefListing(t *testing.T) {
	t.Parallel()
	server, _, _ := private(t, &testenv.Options{Count: true})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := pgsnapshot.New(p, nil)
	const runs = 1001
	if _, err := p.Exec(t.Context(), s.Fill(inFlightSQL)); err != nil {
		t.Fatal(err)
	}
	toast := func() (n int) {
		const sql = "SELECT toast_blks_hit + toast_blks_read FROM pg_statio_user_tables WHERE relname = 'holdfast_runs'"
		testenv.FlushStatistics(t, p)
		if err := p.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	list := func(brief, bare bool) (statements int64, blocks int) {
		q := snapshot.Query{Key: snapshot.Key{Orchestrator: "bot"}, Brief: brief}
		read, n := toast(), 0
		statements = server.Statements()
		for r, err := range s.Runs(t.Context(), q) {
			n++
			if want := fmt.Sprintf("s%06d", n); err != nil || r.Session != want || (r.Payload == nil) != bare {
				t.Fatalf("run %d is of %q with %d bytes of payload, want %q: %v",
					n, r.Session, len(r.Payload), want, err)
			}
		}
		if n != runs {
			t.Errorf("%d runs, want %d", n, runs)
		}
		return server.Statements() - statements, toast() - read
	}
	if statements, read := list(false, false); read == 0 {
		t.Errorf("the whole runs are listed by %d statements, and their payloads are in the rows", statements)
	}
	if statements, read := list(true, true); statements != 2 || read > 0 {
		t.Errorf("a brief list of %d runs takes %d statements, want 2, and reads %d blocks of payloads",
			runs, statements, read)
	}
	for _, status := range []snapshot.Status{snapshot.Suspended, snapshot.Parked} {
		if _, err := p.Exec(t.Context(), s.Fill("UPDATE {runs} SET status = $1"), string(status)); err != nil {
			t.Fatal(err)
		}
		if _, read := list(false, true); read > 0 {
			t.Errorf("a list of %s runs reads %d blocks of payloads", status, read)
		}
	}
}
