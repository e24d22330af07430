package checkpointtest_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/suite"
)

var errAway = errors.New("the part is away")

// A divided store is two of Memory. It knows which sessions there are, even if the odd part is away.
type divided struct {
	even, odd *checkpoint.Memory
	away      *bool // of the odd part
}

func newDivided(ttl time.Duration) divided {
	return divided{&checkpoint.Memory{TTL: ttl}, &checkpoint.Memory{TTL: ttl}, new(bool)}
}

func isOdd(session string) bool { return session[len(session)-1]%2 == 1 }

func (d divided) TakeAway(_ context.Context, _ string, all []string) (away []string, back func(), err error) {
	*d.away = true
	for _, id := range all {
		if isOdd(id) {
			away = append(away, id)
		}
	}
	return away, func() { *d.away = false }, nil
}

// gone reports whether a session cannot be reached.
func (d divided) gone(session string) bool { return *d.away && isOdd(session) }

// part returns the part that has the session.
func (d divided) part(k checkpoint.Key) (*checkpoint.Memory, error) {
	switch {
	case d.gone(k.Session):
		return nil, errAway
	case isOdd(k.Session):
		return d.odd, nil
	}
	return d.even, nil
}

func (d divided) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	m, err := d.part(k)
	if err != nil {
		return c, err
	}
	return m.Claim(ctx, k, r)
}

func (d divided) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) (lost []checkpoint.Lease, err error) {
	var unknown []checkpoint.Lease
	for _, l := range leases {
		m, err := d.part(l.Key)
		if err != nil {
			unknown = append(unknown, l)
			continue
		}
		gone, _ := m.Renew(ctx, ttl, []checkpoint.Lease{l})
		lost = append(lost, gone...)
	}
	if len(unknown) > 0 {
		err = &checkpoint.RenewError{Unknown: unknown, Err: errAway}
	}
	return lost, err
}

func (d divided) Held(
	ctx context.Context, orchestrator string, sessions []string,
) (owners map[string]string, err error) {
	owners, err = d.even.Held(ctx, orchestrator, sessions)
	if err != nil {
		return owners, err
	}
	if *d.away {
		k := checkpoint.Key{Orchestrator: orchestrator, Session: sessions[1]}
		return owners, &checkpoint.AwayError{Key: k, Err: errAway}
	}
	others, err := d.odd.Held(ctx, orchestrator, sessions)
	maps.Copy(owners, others)
	return owners, err
}

func (d divided) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	m, err := d.part(l.Key)
	if err != nil {
		return err
	}
	return m.Append(ctx, l, cp, o)
}

func (d divided) Mark(ctx context.Context, l checkpoint.Lease, marks checkpoint.Marks) error {
	m, err := d.part(l.Key)
	if err != nil {
		return err
	}
	return m.Mark(ctx, l, marks)
}

func (d divided) Delete(ctx context.Context, l checkpoint.Lease) error {
	m, err := d.part(l.Key)
	if err != nil {
		return err
	}
	return m.Delete(ctx, l)
}

func (d divided) Head(ctx context.Context, k checkpoint.Key) (h checkpoint.Head, err error) {
	m, err := d.part(k)
	if err != nil {
		return h, err
	}
	return m.Head(ctx, k)
}

func (d divided) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	m, err := d.part(k)
	if err != nil {
		return func(yield func(checkpoint.Checkpoint, error) bool) { yield(checkpoint.Checkpoint{}, err) }
	}
	return m.Turns(ctx, k, from)
}

func (d divided) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		limit := q.Limit
		q.Limit = 0
		var all []string
		for _, m := range []*checkpoint.Memory{d.even, d.odd} {
			for id, err := range m.Sessions(ctx, q) {
				if err != nil {
					yield(id, err)
					return
				}
				all = append(all, id)
			}
		}
		slices.Sort(all)
		for i, id := range all {
			var err error
			if d.gone(id) {
				k := checkpoint.Key{Orchestrator: q.Orchestrator, Session: id}
				err = &checkpoint.AwayError{Key: k, Err: errAway}
			}
			if limit > 0 && i == limit || !yield(id, err) {
				return
			}
		}
	}
}

func (d divided) Sweep(ctx context.Context, limit int) (retired int, err error) {
	retired, err = d.even.Sweep(ctx, limit)
	if err != nil {
		return retired, err
	}
	if *d.away {
		return retired, errAway
	}
	n, err := d.odd.Sweep(ctx, limit)
	return retired + n, err
}

func TestDividedAccepts(t *testing.T) {
	right := func() checkpointtest.DividedStore { return newDivided(0) }
	for name, err := range checkpointtest.DividedViolations(t.Context(), right) {
		t.Errorf("%s: %v", name, err)
	}
	if err := checkpointtest.DividedSweepViolation(t.Context(), newDivided(time.Millisecond)); err != nil {
		t.Error(err)
	}
}

func TestDividedConvicts(t *testing.T) {
	type store = checkpointtest.DividedStore
	for name, c := range map[string]struct {
		clause string
		broken func(divided) store
	}{
		"renews none":        {"renew-away", func(d divided) store { return renews{d, oneTransaction, nil} }},
		"stops at the first": {"renew-away", func(d divided) store { return stopsRenewing{d} }},
		"names no lease":     {"renew-away", renewing(func(lost, _ []checkpoint.Lease, _ error) ([]checkpoint.Lease, error) { return lost, errAway })},
		"names them all": {"renew-away", renewing(func(_, asked []checkpoint.Lease, _ error) ([]checkpoint.Lease, error) {
			return nil, &checkpoint.RenewError{Unknown: asked, Err: errAway}
		})},
		"hides what it does not know": {"renew-away", renewing(func(lost, _ []checkpoint.Lease, _ error) ([]checkpoint.Lease, error) { return lost, nil })},
		"takes the unknown for lost": {"renew-away", renewing(func(lost, _ []checkpoint.Lease, err error) ([]checkpoint.Lease, error) {
			if partial, is := errors.AsType[*checkpoint.RenewError](err); is {
				lost = append(lost, partial.Unknown...)
			}
			return lost, err
		})},
		"waits for what does not answer": {"renew-away", func(d divided) store { return renews{d, waitsOn, nil} }},
		"knows no owner":                 {"held-away", func(d divided) store { return holdsNone{d} }},
		"takes the unknown for free":     {"held-away", func(d divided) store { return holdsFewer{d} }},
		"a list ends":                    {"sessions-away", func(d divided) store { return endsAway{d} }},
		"a list hides what is away":      {"sessions-away", func(d divided) store { return skipsAway{d} }},
		"a list names no session":        {"sessions-away", func(d divided) store { return plainAway{d} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.Trial[store]{Violations: checkpointtest.DividedViolations}.
				Convict(t, c.clause, func() store { return c.broken(newDivided(0)) })
		})
	}
}

func TestDividedSweepConvicts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if checkpointtest.DividedSweepViolation(ctx, stuckSweep{newDivided(time.Millisecond)}) == nil {
		t.Error("a sweep that stops at the part that is away is accepted")
	}
	if checkpointtest.DividedSweepViolation(t.Context(), muteSweep{newDivided(time.Millisecond)}) == nil {
		t.Error("a sweep that says nothing of the part that is away is accepted")
	}
}

// A renews store does something before it renews while a part is away, or changes what it then says of that.
type renews struct {
	divided
	before func(ctx context.Context) error
	after  func(lost, asked []checkpoint.Lease, err error) ([]checkpoint.Lease, error)
}

func renewing(
	after func(lost, asked []checkpoint.Lease, err error) ([]checkpoint.Lease, error),
) func(divided) checkpointtest.DividedStore {
	return func(d divided) checkpointtest.DividedStore { return renews{divided: d, after: after} }
}

func (s renews) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) ([]checkpoint.Lease, error) {
	if s.before != nil && *s.away {
		if err := s.before(ctx); err != nil {
			return nil, err
		}
	}
	lost, err := s.divided.Renew(ctx, ttl, leases)
	if s.after != nil && err != nil {
		return s.after(lost, leases, err)
	}
	return lost, err
}

func oneTransaction(context.Context) error { return errAway }

// waitsOn waits for the part that is away, although ctx ends.
func waitsOn(ctx context.Context) error {
	<-ctx.Done()
	time.Sleep(5 * time.Second)
	return nil
}

// stopsRenewing extends nothing behind the first lease that it cannot reach, and believes that it has.
type stopsRenewing struct{ divided }

func (s stopsRenewing) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) ([]checkpoint.Lease, error) {
	if !*s.away {
		return s.divided.Renew(ctx, ttl, leases)
	}
	first := slices.IndexFunc(leases, func(l checkpoint.Lease) bool { return s.gone(l.Session) })
	lost, err := s.divided.Renew(ctx, ttl, leases[:first])
	_, told := s.divided.Renew(ctx, time.Microsecond, leases[first:])
	return lost, cmp.Or(told, err)
}

type holdsNone struct{ divided }

func (s holdsNone) Held(ctx context.Context, orchestrator string, all []string) (map[string]string, error) {
	owners, err := s.divided.Held(ctx, orchestrator, all)
	if err != nil {
		owners = nil
	}
	return owners, err
}

type holdsFewer struct{ divided }

func (s holdsFewer) Held(ctx context.Context, orchestrator string, all []string) (map[string]string, error) {
	owners, _ := s.divided.Held(ctx, orchestrator, all)
	return owners, nil
}

type endsAway struct{ divided }

func (s endsAway) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return untilDamage(s.divided.Sessions(ctx, q))
}

type skipsAway struct{ divided }

func (s skipsAway) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return withoutDamage(s.divided.Sessions(ctx, q))
}

type plainAway struct{ divided }

func (s plainAway) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for id, err := range s.divided.Sessions(ctx, q) {
			if err != nil {
				err = errAway
			}
			if !yield(id, err) {
				return
			}
		}
	}
}

type stuckSweep struct{ divided }

func (s stuckSweep) Sweep(ctx context.Context, limit int) (int, error) {
	if *s.away {
		return 0, errAway
	}
	return s.divided.Sweep(ctx, limit)
}

type muteSweep struct{ divided }

func (s muteSweep) Sweep(ctx context.Context, limit int) (int, error) {
	n, _ := s.divided.Sweep(ctx, limit)
	return n, nil
}
