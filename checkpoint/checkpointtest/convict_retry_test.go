package checkpointtest_test

import (
	"cmp"
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// These stores miscount deliveries that failed, or hold the wrong sessions back.
func TestSuiteConvictsRetries(t *testing.T) {
	convict(t, map[string]conviction{
		"Due is ignored":                   {"retry", func() store { return dueIgnored{newMutant()} }},
		"a claim makes a session due":      {"retry", func() store { return &claimForgets{holder{mutant: newMutant()}} }},
		"Owing leaves out the held back":   {"retry", func() store { return owingIsDue{newMutant()} }},
		"held back for longer":             {"retry-over", func() store { return holdsLonger{newMutant()} }},
		"Due is looked at after the limit": {"retry-page", func() store { return filtersDue{newMutant()} }},
		"HeldBack is ignored":              {"retry-held", func() store { return heldLike{newMutant(), ignored} }},
		"HeldBack is any that is not due":  {"retry-held", func() store { return heldLike{newMutant(), atAll} }},
		"HeldBack without Owing is taken":  {"reads-invalid", func() store { return heldLike{newMutant(), ignored} }},
		"a short Retry is none":            {"retry-counts", func() store { return rounds{newMutant()} }},
		"the count stops at one":           {"retry-counts", func() store { return countsOnce{newMutant()} }},
		"the count stays after a delivery": {"retry-delivered", func() store { return &countsForEver{mutant: newMutant()} }},
		"the time stays after a delivery":  {"retry-delivered", func() store { return &holder{mutant: newMutant()} }},
		"what owes anew has failed":        {"retry-anew", func() store { return &countsForEver{mutant: newMutant()} }},
		"what owes anew is held back":      {"retry-anew", func() store { return &holder{mutant: newMutant()} }},
		"a settled turn makes it due":      {"retry-append", func() store { return newAppendForgets() }},
		"Retry counts with nothing owed":   {"retry-nothing", func() store { return &countsForEver{mutant: newMutant()} }},
		"Retry holds back what owes not":   {"retry-nothing", func() store { return &holder{mutant: newMutant()} }},
		"Retry by any lease":               {"retry-fenced", func() store { return retriesAny{newMutant()} }},
		"Retry and Release when lost":      {"retry-fenced", func() store { return releasesFirst{newMutant()} }},
		"any Retry is taken":               {"mark-invalid", func() store { return uncheckedRetry{newMutant()} }},
		"Due alone is taken":               {"reads-invalid", func() store { return dueIgnored{newMutant()} }},
	})
}

type dueIgnored struct{ mutant }

func (d dueIgnored) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	q.Due = false
	return d.Memory.Sessions(ctx, q)
}

// heldLike asks for the sessions that are held back for another time.
type heldLike struct {
	mutant
	than func(time.Duration) time.Duration
}

func ignored(time.Duration) time.Duration { return 0 }
func atAll(d time.Duration) time.Duration { return min(d, 1) }

func (h heldLike) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	q.HeldBack = h.than(q.HeldBack)
	return h.Memory.Sessions(ctx, q)
}

type owingIsDue struct{ mutant }

func (o owingIsDue) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	q.Due = q.Due || q.Owing
	return o.Memory.Sessions(ctx, q)
}

type holdsLonger struct{ mutant }

func (h holdsLonger) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if m.Retry > 0 {
		m.Retry += time.Hour
	}
	return h.Memory.Mark(ctx, l, m)
}

// filtersDue reads a page, and then leaves out the sessions that are held back.
type filtersDue struct{ mutant }

func (f filtersDue) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	if !q.Due {
		return f.Memory.Sessions(ctx, q)
	}
	return func(yield func(string, error) bool) {
		page := q
		page.Due = false
		for id, err := range f.Memory.Sessions(ctx, page) {
			q.Prefix, q.After, q.Limit = id, "", 1
			for at, wrong := range f.Memory.Sessions(ctx, q) {
				if at == id && !yield(id, cmp.Or(err, wrong)) {
					return
				}
			}
		}
	}
}

// rounds keeps milliseconds.
type rounds struct{ mutant }

func (r rounds) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	m.Retry = m.Retry.Truncate(time.Millisecond)
	return r.Memory.Mark(ctx, l, m)
}

type countsOnce struct{ mutant }

func (o countsOnce) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := o.mutant.Claim(ctx, k, r)
	c.Failed = min(c.Failed, 1)
	return c, err
}

// countsForEver counts each Retry and forgets none.
type countsForEver struct {
	mutant
	counting sync.Mutex // protects following field
	failed   map[checkpoint.Key]int
}

func (f *countsForEver) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	err := f.Memory.Mark(ctx, l, m)
	f.counting.Lock()
	defer f.counting.Unlock()
	if err == nil && m.Retry > 0 {
		if f.failed == nil {
			f.failed = make(map[checkpoint.Key]int)
		}
		f.failed[l.Key]++
	}
	return err
}

func (f *countsForEver) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := f.mutant.Claim(ctx, k, r)
	f.counting.Lock()
	defer f.counting.Unlock()
	c.Failed = f.failed[k]
	return c, err
}

// holder holds a session back until Retry is over, even if turns were delivered or settled since.
type holder struct {
	mutant
	until sync.Map // session to time.Time
}

func (h *holder) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	err := h.Memory.Mark(ctx, l, m)
	if err == nil && m.Retry > 0 {
		h.until.Store(l.Session, time.Now().Add(m.Retry))
	}
	return err
}

func (h *holder) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	held := q.Due
	q.Due = false
	return func(yield func(string, error) bool) {
		for id, err := range h.Memory.Sessions(ctx, q) {
			until, ok := h.until.Load(id)
			if held && ok && time.Now().Before(until.(time.Time)) {
				continue
			}
			if !yield(id, err) {
				return
			}
		}
	}
}

type claimForgets struct{ holder }

func (f *claimForgets) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := f.mutant.Claim(ctx, k, r)
	if err == nil {
		f.until.Delete(k.Session)
	}
	return c, err
}

type appendForgets struct{ holder }

func newAppendForgets() *appendForgets { return &appendForgets{holder{mutant: newMutant()}} }

func (f *appendForgets) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	err := f.Memory.Append(ctx, l, cp, o)
	if err == nil && o.Owes {
		f.until.Delete(l.Session)
	}
	return err
}

type retriesAny struct{ mutant }

func (r retriesAny) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if m.Retry > 0 {
		l.Fence = r.fence(l.Key)
	}
	return r.Memory.Mark(ctx, l, m)
}

// releasesFirst treats every mark with Release as if it only released a lost lease.
type releasesFirst struct{ mutant }

func (r releasesFirst) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if m.Release && l.Fence != r.fence(l.Key) {
		return nil
	}
	return r.Memory.Mark(ctx, l, m)
}

type uncheckedRetry struct{ mutant }

func (u uncheckedRetry) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	m.Retry = min(max(0, m.Retry), time.Hour)
	return u.Memory.Mark(ctx, l, m)
}
