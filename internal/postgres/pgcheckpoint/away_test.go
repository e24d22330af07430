package pgcheckpoint_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A divided store cannot write some of its sessions: a trigger raises the error of Citus for a worker that is down.
// What only reads finds them.
type divided struct {
	*pgcheckpoint.Store
	pool *pgxpool.Pool
}

func newDivided(t *testing.T, o pgcheckpoint.Options) divided {
	p := testenv.Postgres(t)
	s := pgcheckpoint.New(p, &o)
	create(t, p, s)
	_, err := p.Exec(t.Context(), s.Fill(`
		CREATE TABLE down (session text PRIMARY KEY);
		CREATE FUNCTION reach() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF EXISTS (SELECT FROM down WHERE session = OLD.session) THEN
				RAISE EXCEPTION 'connection to the remote node failed' USING ERRCODE = 'connection_failure';
			END IF;
			IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER reach BEFORE UPDATE OR DELETE ON {sessions} FOR EACH ROW EXECUTE FUNCTION reach();`))
	if err != nil {
		t.Fatal(err)
	}
	return divided{s, p}
}

func (d divided) TakeAway(
	ctx context.Context, _ string, sessions []string,
) (away []string, back func(), err error) {
	for i, id := range sessions {
		if i%3 == 1 {
			away = append(away, id)
		}
	}
	_, err = d.pool.Exec(ctx, "INSERT INTO down SELECT unnest($1::text[])", away)
	return away, func() { _, _ = d.pool.Exec(ctx, "DELETE FROM down") }, err
}

func TestWorkerAway(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			checkpointtest.RunDivided(t, func(t *testing.T) checkpointtest.DividedStore { return newDivided(t, o) })
		})
	}
	checkpointtest.RunDividedSweeper(t,
		func(t *testing.T, ttl time.Duration) checkpointtest.DividedSweepingStore {
			return newDivided(t, pgcheckpoint.Options{Functions: true, TTL: ttl})
		})
}

// One bad row among many costs few round trips.
func TestRenewDivides(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			s := newDivided(t, o)
			var all []string
			var leases []checkpoint.Lease
			for i := range 256 {
				all = append(all, fmt.Sprintf("s%03d", i))
				leases = append(leases, claim(t, s.Store, all[i]).Lease)
			}
			if _, _, err := s.TakeAway(t.Context(), "bot", all[99:101]); err != nil {
				t.Fatal(err)
			}
			before := s.pool.Stat().AcquireCount()
			lost, err := s.Renew(t.Context(), time.Hour, leases)
			partial, is := errors.AsType[*checkpoint.RenewError](err)
			if !is || len(partial.Unknown) != 1 || partial.Unknown[0] != leases[100] || len(lost) > 0 {
				t.Fatalf("lost %v, error %v", lost, err)
			}
			if n := s.pool.Stat().AcquireCount() - before; n > 2*8+1 {
				t.Errorf("%d round trips for one of %d leases", n, len(leases))
			}
		})
	}
}
