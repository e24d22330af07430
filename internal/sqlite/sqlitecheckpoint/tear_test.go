package sqlitecheckpoint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// If SQLite itself cannot read a state, the turn of that state is damaged. The other turns can be read.
func TestMalformedState(t *testing.T) {
	path := sqlitetest.File(t)
	dsn := sqlitetest.DSN(path)
	db := sqlitetest.Open(t, dsn)
	s := create(t, db, nil)
	const turns, torn = 30, 12
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("state %02d ", i), 1500) }
	l := mustClaim(t, s, "a").Lease
	var all []int
	for i := range turns {
		cp := turn(i)
		cp.State = json.RawMessage(`"` + text(i) + `"`)
		want(t, s.Append(t.Context(), l, cp, checkpoint.AppendOptions{}), nil)
		all = append(all, turns-1-i)
	}
	sqlitetest.Exec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
	db.Close()
	testenv.TearSQLite(t, path, text(torn)[:18])

	s = sqlitecheckpoint.New(sqlitetest.Open(t, dsn), nil)
	var got, damaged []int
	for cp, err := range s.Turns(t.Context(), bot("a"), checkpoint.Newest) {
		if _, is := errors.AsType[*checkpoint.DamagedError](err); is {
			damaged = append(damaged, cp.Turn)
		} else if err != nil || string(cp.State) != `"`+text(cp.Turn)+`"` {
			t.Errorf("turn %d has a state of %d bytes: %v", cp.Turn, len(cp.State), err)
		}
		got = append(got, cp.Turn)
	}
	if !slices.Equal(got, all) || !slices.Equal(damaged, []int{torn}) {
		t.Errorf("turns %v, of which damaged are %v", got, damaged)
	}
}

// If SQLite itself cannot read the newest turn, or the turn that answered the request, the claim says that the
// session is damaged. It returns a lease.
func TestClaimMalformed(t *testing.T) {
	t.Parallel()
	for torn, request := range []string{"request-0", ""} {
		path := sqlitetest.File(t)
		dsn := sqlitetest.DSN(path)
		db := sqlitetest.Open(t, dsn)
		s := create(t, db, nil)
		text := func(i int) string { return strings.Repeat(fmt.Sprintf("state %02d ", i), 1500) }
		l := mustClaim(t, s, "a").Lease
		for i := range 2 {
			cp := turn(i)
			cp.State, cp.RequestID = json.RawMessage(`"`+text(i)+`"`), fmt.Sprint("request-", i)
			want(t, s.Append(t.Context(), l, cp, checkpoint.AppendOptions{}), nil)
		}
		sqlitetest.Exec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
		db.Close()
		testenv.TearSQLite(t, path, text(torn)[:18])

		s = sqlitecheckpoint.New(sqlitetest.Open(t, dsn), nil)
		r := checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Hour, From: l.Fence, RequestID: request}
		c, err := s.Claim(t.Context(), l.Key, r)
		if d, ok := errors.AsType[*checkpoint.DamagedError](err); !ok || d.Key != l.Key {
			t.Errorf("turn %d is torn: got %v", torn, err)
		}
		if c.Fence.Nonce != "n" || c.Fence.Epoch <= l.Fence.Epoch {
			t.Errorf("turn %d is torn: got lease %+v", torn, c.Lease)
		}
		want(t, s.Mark(t.Context(), c.Lease, checkpoint.Marks{Release: true}), nil)
	}
}
