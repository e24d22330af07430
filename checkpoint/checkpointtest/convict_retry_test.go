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
		"Due is ignored":                 {"retry", listing(func(q *checkpoint.SessionQuery) { q.Due = false })},
		"a claim makes a session due":    {"retry", func() store { return &claimForgets{holder{mutant: newMutant()}} }},
		"Owing leaves out the held back": {"retry", listing(func(q *checkpoint.SessionQuery) { q.Due = q.Due || q.Owing })},
		"held back for longer": {"retry-over", retrying(func(d time.Duration) time.Duration {
			if d > 0 {
				d += time.Hour
			}
			return d
		})},
		"Due is looked at after the limit": {"retry-page", func() store { return filtersDue{newMutant()} }},
		"HeldBack is ignored":              {"retry-held", listing(func(q *checkpoint.SessionQuery) { q.HeldBack = 0 })},
		"HeldBack is any that is not due":  {"retry-held", listing(func(q *checkpoint.SessionQuery) { q.HeldBack = min(q.HeldBack, 1) })},
		"HeldBack without Owing is taken":  {"reads-invalid", listing(func(q *checkpoint.SessionQuery) { q.HeldBack = 0 })},
		"a short Retry is none":            {"retry-counts", retrying(func(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) })},
		"the count stops at one": {"retry-counts", granting(func(c *checkpoint.Claimed, err error) error {
			c.Failed = min(c.Failed, 1)
			return err
		})},
		"the count stays after a delivery": {"retry-delivered", func() store { return &countsForEver{mutant: newMutant()} }},
		"the time stays after a delivery":  {"retry-delivered", func() store { return &holder{mutant: newMutant()} }},
		"what owes anew has failed":        {"retry-anew", func() store { return &countsForEver{mutant: newMutant()} }},
		"what owes anew is held back":      {"retry-anew", func() store { return &holder{mutant: newMutant()} }},
		"a settled turn makes it due":      {"retry-append", func() store { return newAppendForgets() }},
		"Retry counts with nothing owed":   {"retry-nothing", func() store { return &countsForEver{mutant: newMutant()} }},
		"Retry holds back what owes not":   {"retry-nothing", func() store { return &holder{mutant: newMutant()} }},
		"Retry by any lease":               {"retry-fenced", func() store { return retriesAny{newMutant()} }},
		"Retry and Release when lost":      {"retry-fenced", func() store { return releasesFirst{newMutant()} }},
		"any Retry is taken":               {"mark-invalid", retrying(func(d time.Duration) time.Duration { return min(max(0, d), time.Hour) })},
		"Due alone is taken":               {"reads-invalid", listing(func(q *checkpoint.SessionQuery) { q.Due = false })},
	})
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
