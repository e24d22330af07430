package checkpointtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// Each of these stores breaks a promise about heads.
func TestHeadConvicts(t *testing.T) {
	type head = checkpoint.Head
	// showing is a store whose heads are changed before they are returned.
	showing := func(change func(h *head)) func() store {
		return func() store {
			m := new(checkpoint.Memory)
			return inspected{m, func(ctx context.Context, k checkpoint.Key) (head, error) {
				h, err := m.Head(ctx, k)
				if err == nil {
					change(&h)
				}
				return h, err
			}}
		}
	}
	// asking is a store whose heads come from a function.
	asking := func(ask func(ctx context.Context, m *checkpoint.Memory, k checkpoint.Key) (head, error)) func() store {
		return func() store {
			m := new(checkpoint.Memory)
			return inspected{m, func(ctx context.Context, k checkpoint.Key) (head, error) { return ask(ctx, m, k) }}
		}
	}
	convict(t, map[string]conviction{
		"nothing is a head":            {"head-unknown", asking(emptyHead)},
		"Head claims a new session":    {"head-unknown", asking(claimsFirst)},
		"no turn is turn 0":            {"head-claimed", showing(func(h *head) { h.Turn = max(0, h.Turn) })},
		"counts turns":                 {"head-settled", showing(func(h *head) { h.Turn++ })},
		"nothing is summarized":        {"head-settled", showing(func(h *head) { h.Summarized = 0 })},
		"the first owner stays":        {"head-lease", func() store { return remembers(true) }},
		"the lease is not renewed":     {"head-lease", showing(func(h *head) { h.LeaseLeft = min(h.LeaseLeft, time.Hour) })},
		"who released still owns":      {"head-released", func() store { return remembers(false) }},
		"who expired still owns":       {"head-expired", func() store { return remembers(false) }},
		"owes or not":                  {"head-owed", showing(func(h *head) { h.Owed = min(h.Owed, 1) })},
		"the first turn is kept":       {"head-pruned", showing(func(h *head) { h.First = 0 })},
		"a deleted session is settled": {"head-deleted", asking(emptyHead)},
		"keys have one case":           {"head-names", asking(lowerCase)},
		"owners have one case":         {"head-names", showing(func(h *head) { h.Owner = strings.ToLower(h.Owner) })},
		"takes the session to look":    {"head-reads", asking(takes)},
		"any key will do":              {"head-invalid", asking(anyKey)},
		"goes on without a caller": {"head-cancelled", asking(
			func(ctx context.Context, m *checkpoint.Memory, k checkpoint.Key) (head, error) {
				return m.Head(context.WithoutCancel(ctx), k)
			})},
	})
}

// inspected is Memory with another Head.
type inspected struct {
	*checkpoint.Memory
	head func(ctx context.Context, k checkpoint.Key) (checkpoint.Head, error)
}

func (s inspected) Head(ctx context.Context, k checkpoint.Key) (checkpoint.Head, error) {
	return s.head(ctx, k)
}

// remembers shows the first owner that it saw of a session, or the last.
func remembers(first bool) store {
	return &claims{new(checkpoint.Memory), make(map[checkpoint.Key]checkpoint.Head), first}
}

type claims struct {
	*checkpoint.Memory
	seen  map[checkpoint.Key]checkpoint.Head
	first bool
}

func (s *claims) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := s.Memory.Claim(ctx, k, r)
	if _, known := s.seen[k]; err == nil && (!s.first || !known) {
		s.seen[k] = checkpoint.Head{Owner: r.Owner, LeaseLeft: r.TTL}
	}
	return c, err
}

func (s *claims) Head(ctx context.Context, k checkpoint.Key) (checkpoint.Head, error) {
	h, err := s.Memory.Head(ctx, k)
	if err == nil {
		h.Owner, h.LeaseLeft = s.seen[k].Owner, s.seen[k].LeaseLeft
	}
	return h, err
}

// emptyHead returns a head of every session.
func emptyHead(ctx context.Context, m *checkpoint.Memory, k checkpoint.Key) (checkpoint.Head, error) {
	h, err := m.Head(ctx, k)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return checkpoint.Head{Turn: -1}, nil
	}
	return h, err
}

// look is a claim for a look.
func look() checkpoint.ClaimRequest {
	return checkpoint.ClaimRequest{Owner: "looker", Nonce: "looker", TTL: time.Millisecond}
}

// claimsFirst claims a free session to read its head.
func claimsFirst(ctx context.Context, m *checkpoint.Memory, k checkpoint.Key) (checkpoint.Head, error) {
	h, known := m.Head(ctx, k)
	c, err := m.Claim(ctx, k, look())
	if err == nil {
		err = m.Mark(ctx, c.Lease, checkpoint.Marks{Release: true})
	}
	if errors.Is(err, lock.ErrHeld) {
		err = nil
	}
	return h, errors.Join(known, err)
}

// takes takes the session from its owner to read its head.
func takes(ctx context.Context, m *checkpoint.Memory, k checkpoint.Key) (checkpoint.Head, error) {
	h, err := m.Head(ctx, k)
	r := look()
	_, held := m.Claim(ctx, k, r)
	if owner, is := errors.AsType[*checkpoint.HeldError](held); is {
		r.From = owner.Fence
		_, held = m.Claim(ctx, k, r)
	}
	return h, errors.Join(err, held)
}

func lowerCase(ctx context.Context, m *checkpoint.Memory, k checkpoint.Key) (checkpoint.Head, error) {
	k.Session = strings.ToLower(k.Session)
	return m.Head(ctx, k)
}

// anyKey looks for a session that cannot be.
func anyKey(ctx context.Context, m *checkpoint.Memory, k checkpoint.Key) (checkpoint.Head, error) {
	h, err := m.Head(ctx, k)
	if errors.Is(err, checkpoint.ErrInvalid) {
		err = checkpoint.ErrNotFound
	}
	return h, err
}
