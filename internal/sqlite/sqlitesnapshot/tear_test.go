package sqlitesnapshot_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
)

// If SQLite itself cannot read a payload, its run is damaged. The rest of the run can be read, and adopted.
func TestMalformedPage(t *testing.T) {
	path := sqlitetest.File(t)
	dsn := sqlitetest.DSN(path)
	db := sqlitetest.Open(t, dsn)
	s := create(t, db, nil)
	const runs, torn = 40, 20
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("payload %02d ", i), 1000) }
	var all []string
	for i := range runs {
		r := run(fmt.Sprintf("s%02d", i))
		r.Payload = json.RawMessage(`"` + text(i) + `"`)
		if _, err := s.Begin(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Session)
	}
	sqlitetest.Exec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
	db.Close()
	testenv.TearSQLite(t, path, text(torn)[:22])

	s = sqlitesnapshot.New(sqlitetest.Open(t, dsn), nil)
	list := func(q snapshot.Query) (sessions, damaged []string) {
		t.Helper()
		q.Orchestrator = "bot"
		for r, err := range s.Runs(t.Context(), q) {
			if _, is := errors.AsType[*snapshot.DamagedError](err); is {
				damaged = append(damaged, r.Session)
			} else if err != nil || (r.Payload == nil) != q.Brief {
				t.Errorf("%+v: a run of %q with %d bytes, %v", q, r.Session, len(r.Payload), err)
			}
			sessions = append(sessions, r.Session)
		}
		return sessions, damaged
	}
	for _, c := range []struct {
		q         snapshot.Query
		want, bad []string
	}{
		{snapshot.Query{}, all, all[torn : torn+1]},
		{snapshot.Query{Status: snapshot.Running, After: all[5], Limit: 30}, all[6:36], all[torn : torn+1]},
		{snapshot.Query{Key: bot(all[torn])}, all[torn : torn+1], all[torn : torn+1]},
		{snapshot.Query{Brief: true}, all, nil},
	} {
		if got, bad := list(c.q); !slices.Equal(got, c.want) || !slices.Equal(bad, c.bad) {
			t.Errorf("%+v: %q, of which damaged are %q", c.q, got, bad)
		}
	}
	for _, session := range []string{all[torn-1], all[torn+1]} {
		r, err := s.Adopt(t.Context(), bot(session), fence(2), 3)
		if err != nil {
			t.Fatal(err)
		}
		want(t, s.Delete(t.Context(), r.Key, r.ID, r.Fence), nil)
	}
	// SQLite would have to read the row in order to write it. So the file has to be repaired.
	if _, err := s.Adopt(t.Context(), bot(all[torn]), fence(2), 3); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Adopt of what is malformed: %v, want an error that names the file", err)
	}
}
