package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

// A malformed session was changed by a hand.
type malformed struct {
	spoil string
	says  string // what the errors name
	fails string // the calls that find the damage
	works string // calls that do not read it, or remove it
}

// A handed store can be changed by a hand.
type handed interface {
	store
	Spoil(ctx context.Context, what string) error
}

const ofHead, ofTurn = "Head Claim", "Claim"

var malformedInSQLite = []malformed{
	{`UPDATE holdfast_turns SET state = '{' WHERE turn = 1`, "state", ofTurn, "Head"},
	{`UPDATE holdfast_turns SET state = '"\u0000"' WHERE turn = 1`, "state", ofTurn, "Head"},
	{`UPDATE holdfast_turns SET payload = 'x' WHERE turn = 1`, "payload", ofTurn, "Head"},
	{`UPDATE holdfast_turns SET route = '{}' WHERE turn = 1`, "route", ofTurn, "Head"},
	{`UPDATE holdfast_turns SET run_id = '' WHERE turn = 1`, "run id", ofTurn, "Head"},
	{`UPDATE holdfast_turns SET signature = CAST(x'ff' AS TEXT) WHERE turn = 1`, "signature", ofTurn, "Head"},
	{`DELETE FROM holdfast_turns WHERE turn = 0; UPDATE holdfast_turns SET turn = -1`, "turn -1", ofTurn, "Head"},
	{`DELETE FROM holdfast_turns`, "turn 1", ofTurn, "Head"},
	{`DELETE FROM holdfast_turns WHERE turn = 1`, "turn 1", ofTurn, "Head"},
	{`UPDATE holdfast_sessions SET summarized = 9`, "summarized 9", ofHead, ""},
	{`UPDATE holdfast_sessions SET owed = 9`, "delivered 9", ofHead, ""},
	{`UPDATE holdfast_sessions SET turn = -2`, "turn -2", ofHead, ""},
	{`UPDATE holdfast_sessions SET born = 0`, "born 0", ofHead, ""},
	{`UPDATE holdfast_sessions SET failed = -1`, "failed -1", ofHead, ""},
	{loosely("turns", "saved_at") + `UPDATE holdfast_turns SET saved_at = 'yesterday'`, "saved_at", ofTurn, "Head"},
	{loosely("sessions", "turn") + `UPDATE holdfast_sessions SET turn = 'two'`, "turn", ofHead, ""},
}

// loosely makes a table that takes any value in a column.
func loosely(table, column string) string {
	key := map[string]string{"turns": "orchestrator, session, turn", "sessions": "orchestrator, session"}[table]
	return "ALTER TABLE holdfast_" + table + " RENAME TO strict; " +
		"CREATE TABLE holdfast_" + table + " AS SELECT * FROM strict; " +
		"CREATE UNIQUE INDEX loose_" + column + " ON holdfast_" + table + " (" + key + ");"
}

func malformedInRedis() (all []malformed) {
	head := func(command, says string) {
		all = append(all, malformed{command, says, "Renew Load Append Mark Claim", "Delete"})
	}
	for _, field := range []string{
		"epoch", "lease", "born", "turn", "first", "summarized", "owed", "failed", "retry", "tried",
	} {
		head("HSET "+field+" x", field)
	}
	for _, field := range []string{"nonce", "epoch", "owing"} {
		head("HDEL "+field, field)
	}
	head("SET x", "head")
	for _, command := range []string{
		`HSET 1 {"layout":2}`, "HSET 1:at now", "HSET 1:run ", "HSET 1:state {", "HSET 1:payload [", "HSET 1:req \xff",
		"HDEL 1 1:at 1:run 1:req 1:state 1:payload",
	} {
		all = append(all, malformed{command, "", "Newest Claim", ""})
	}
	return all
}

// If no store wrote a row, the row is refused, not repaired, and the error names the fault.
func TestMalformed(t *testing.T) {
	each(t, func(d database) bool { return d.malformed != nil }, func(t *testing.T, d database) {
		for _, m := range d.malformed {
			t.Run(m.spoil, func(t *testing.T) {
				s := d.open(t, 0, 0).(handed)
				l := claim(t, s, "a").Lease
				settle(t, s, l, owes, 0, 1)
				mark(t, s, l, checkpoint.Marks{Retry: time.Hour})
				check(t, s.Spoil(t.Context(), m.spoil))
				for call, err := range try(t, s, l, m.fails) {
					if !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), m.says) {
						t.Errorf("%s: got %v, want %v that says %q", call, err, checkpoint.ErrDamaged, m.says)
					}
				}
				for call, err := range try(t, s, l, m.works) {
					if err != nil {
						t.Errorf("%s: %v", call, err)
					}
				}
			})
		}
	})
}

// If a head was put back from an old copy, a turn is stored that the head does not know. The session is damaged, and
// an Append changes nothing.
func TestHeadBehind(t *testing.T) {
	each(t, func(d database) bool { return d.setTurn != "" }, func(t *testing.T, d database) {
		s := d.open(t, 0, 0).(handed)
		l := claim(t, s, "a").Lease
		settle(t, s, l, none, 0, 1)
		check(t, s.Spoil(t.Context(), fmt.Sprintf(d.setTurn, 0)))
		again, another := turn(1), turn(1)
		another.RunID, another.RequestID = "another", "another"
		for _, cp := range []checkpoint.Checkpoint{again, another} {
			for _, keep := range []int{0, 1} { // the second one would also prune
				err := s.Append(t.Context(), l, cp, checkpoint.AppendOptions{Keep: keep})
				want(t, err, checkpoint.ErrDamaged)
				if d, ok := errors.AsType[*checkpoint.DamagedError](err); !ok || d.Key != l.Key {
					t.Errorf("got %v, which does not name the session", err)
				}
			}
		}
		check(t, s.Spoil(t.Context(), fmt.Sprintf(d.setTurn, 1)))
		if got := kept(t, s); !slices.Equal(got, []int{1, 0}) {
			t.Errorf("turns %d are kept", got)
		}
	})
}

// A lease that ends at an infinite time is damage, whether the session has an owner or not. Delete removes the session.
func TestPostgresEndlessLease(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"lease_until = 'infinity'", "lease_until = '-infinity'", "lease_until = 'infinity', nonce = ''",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			s := newPG(t, pgcheckpoint.Options{})
			l := claim(t, s, "a").Lease
			claim(t, s, "b")
			s.exec(t, "UPDATE {sessions} SET "+set+" WHERE session = 'a'")
			_, err := s.Head(t.Context(), key("a"))
			if d, is := errors.AsType[*checkpoint.DamagedError](err); !is || d.Key != key("a") {
				t.Errorf("Head: %v, want a *DamagedError of the session", err)
			}
			if _, err := s.Head(t.Context(), key("b")); err != nil {
				t.Errorf("Head of the other session: %v", err)
			}
			s.exec(t, "UPDATE {sessions} SET nonce = $1 WHERE session = 'a'", l.Fence.Nonce)
			r := request()
			r.Nonce = "other"
			switch c, err := s.Claim(t.Context(), key("a"), r); {
			case err == nil:
				l = c.Lease
				if _, err := s.Head(t.Context(), key("a")); err != nil {
					t.Errorf("Head after a claim: %v", err)
				}
			case !errors.Is(err, lock.ErrHeld):
				t.Errorf("Claim: %v, want %v", err, lock.ErrHeld)
			}
			if over := set == "lease_until = '-infinity'"; over != (l.Fence.Nonce == "other") {
				t.Errorf("another claim gets the session: %v", !over)
			}
			deleteAll(t, s, l)
		})
	}
}

// A torn store damages turns by removing a block of their state.
type torn struct {
	pg
	prefix string
}

func (s torn) DamageTurn(ctx context.Context, k checkpoint.Key, turn int) error {
	const long = "UPDATE {turns} SET state = to_jsonb(repeat('x', 10000))" + ofSession + " AND turn = $3"
	if err := s.by(ctx, long, k.Orchestrator, k.Session, turn); err != nil {
		return err
	}
	return testenv.LoseChunk(ctx, s.pool, s.prefix+"turns")
}

// Data that the server itself cannot read is damaged too, like data that no store wrote.
func TestPostgresLostChunk(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pgtest.PoolOn(t, testenv.StartPostgres(t, nil).URL)
			n := 0
			checkpointtest.RunDamaged(t, func(t *testing.T) checkpointtest.DamagingStore {
				n++
				o.Prefix = fmt.Sprintf("torn%d_", n)
				s := pgOn(t, p, o)
				s.exec(t, "ALTER TABLE {turns} ALTER COLUMN state SET STORAGE EXTERNAL")
				s.spoil.head = "born = 0"
				return torn{s, o.Prefix}
			})
		})
	}
}

// A hand has written over an index. That concerns all sessions, so no error says that one of them is damaged.
func TestRedisIndexDamaged(t *testing.T) {
	t.Parallel()
	for name, owing := range map[string]bool{":sessions": false, ":owing": true} {
		t.Run(name, func(t *testing.T) {
			s := newRedis(t, redischeckpoint.Options{TTL: time.Hour})
			o := checkpoint.AppendOptions{Owes: owing}
			settled, begun := claim(t, s, "settled").Lease, claim(t, s, "begun").Lease
			settle(t, s, settled, o, 0)
			check(t, s.client.Set(t.Context(), s.prefix+"{bot}"+name, "x", 0).Err())
			errs := map[string]error{
				"Append": s.Append(t.Context(), begun, turn(0), o),
				"Delete": s.Delete(t.Context(), settled),
			}
			for _, err := range s.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: "bot", Owing: owing}) {
				errs["Sessions"] = err
			}
			if !owing {
				_, errs["Sweep"] = s.Sweep(t.Context(), 0)
			}
			for call, err := range errs {
				_, one := errors.AsType[*checkpoint.DamagedError](err)
				if one || !errors.Is(err, checkpoint.ErrDamaged) {
					t.Errorf("%s: got %v", call, err)
				}
			}
		})
	}
}
