package pgcheckpoint

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/apart"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// Renew is one statement for all leases. With [Options].Functions it is one round trip. If a row of these leases stays
// locked, each lease is renewed by itself, so that the lock costs the other leases nothing. If a lease makes the
// statement fail for another reason, as when its worker is down, the leases are divided until it is alone.
func (s *Store) Renew(ctx context.Context, ttl time.Duration, leases []checkpoint.Lease) ([]checkpoint.Lease, error) {
	if err := checkpoint.ValidateRenew(ttl, leases); err != nil {
		return nil, err
	}
	if len(leases) == 0 {
		return nil, ctxcause.Of(ctx)
	}
	var lost []checkpoint.Lease
	unknown, err := apart.Do(leases, func(some []checkpoint.Lease) error {
		gone, err := s.renew(ctx, ttl, some)
		lost = append(lost, gone...)
		return err
	}, divides)
	if err != nil {
		err = s.error(ctx, "renew", checkpoint.Key{}, err)
	}
	if err != nil && len(unknown) < len(leases) {
		err = &checkpoint.RenewError{Unknown: unknown, Err: err}
	}
	return lost, err
}

// divides returns into how many pieces n leases are divided after err. Locks are waited for once, not again in each
// piece of a piece. An error that the server gave for no single row is for all.
func divides(err error, n int) int {
	switch state := pgstate.Of(err); {
	case state == pgstate.LockNotAvailable, state == pgstate.SerializationFailure:
		return n
	case state == "", state == pgstate.QueryCanceled, pgstate.Refused(err), pgstate.Missing(err):
		return 1
	}
	return 2
}

func (s *Store) renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) (lost []checkpoint.Lease, err error) {
	var renewed map[checkpoint.Lease]bool
	err = s.db.Answered(ctx, func() error {
		renewed, err = s.extend(ctx, ttl, leases)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, l := range leases {
		if !renewed[l] {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

func (s *Store) extend(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) (renewed map[checkpoint.Lease]bool, err error) {
	if s.calls != nil {
		return s.callRenew(ctx, ttl, leases)
	}
	n := len(leases)
	orchestrators, sessions, epochs, nonces := make([]string, n), make([]string, n), make([]int64, n), make([]string, n)
	for i, l := range leases {
		orchestrators[i], sessions[i], epochs[i], nonces[i] = l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce
	}
	var b pgx.Batch
	// A commit that waits, for the disk or for a standby, keeps the rows of all leases locked. If a renewal is lost in
	// a crash of the server, the leases are shorter. An owner stays the owner until a claim fences it off.
	b.Queue(`SELECT set_config('lock_timeout', $1, true), set_config('synchronous_commit', 'off', true)`,
		strconv.FormatInt(patience(ttl, n).Milliseconds(), 10))
	b.Queue(s.sql.renew, orchestrators, sessions, epochs, nonces, ttl.Microseconds())
	results := s.db.SendBatch(ctx, &b)
	defer func() {
		closed := results.Close()
		err = cmp.Or(err, closed)
	}()
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	renewed = make(map[checkpoint.Lease]bool, n)
	var l checkpoint.Lease
	_, err = pgx.ForEachRow(rows, []any{&l.Orchestrator, &l.Session, &l.Fence.Epoch, &l.Fence.Nonce}, func() error {
		renewed[l] = true
		return nil
	})
	return renewed, err
}

// patience is how long a renewal waits for a locked row. It is well within the lease if all leases are renewed
// together. It is shorter for a single lease that held up the others.
func patience(ttl time.Duration, leases int) time.Duration {
	if leases == 1 {
		return max(min(ttl/100, 250*time.Millisecond), 10*time.Millisecond)
	}
	return max(min(ttl/10, time.Second), 10*time.Millisecond)
}
