package transcript

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/message"
)

// Memory is a Store that lives and dies with the process. The zero value is ready.
type Memory struct {
	mu       sync.Mutex // protects following fields
	sessions map[Key][]kept
	raised   int64 // the next entry of a session comes behind this number
}

var (
	_ Store  = (*Memory)(nil)
	_ Raiser = (*Memory)(nil)
)

// kept is an entry of a session. The entries of one are sorted by number.
type kept struct {
	Entry
	id string // "" if it was copied
	at time.Time
}

// Schema returns "": Memory has no tables.
func (m *Memory) Schema() string { return "" }

// Append implements [Store].
func (m *Memory) Append(ctx context.Context, k Key, id string, msgs []message.Message) (Span, error) {
	body, err := EncodeEntry(k, id, msgs)
	if err = cmp.Or(err, ctxcause.Of(ctx)); err != nil {
		return Span{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.sessions[k]
	if i := slices.IndexFunc(all, func(e kept) bool { return e.id == id }); i >= 0 {
		return all[i].Span, nil
	}
	newest := m.raised
	if n := len(all); n > 0 {
		newest = max(newest, all[n-1].Through)
	}
	s := Span{newest + 1, newest + int64(len(msgs))}
	m.put(k, append(all, kept{Entry{Span: s, Body: body}, id, time.Now()}))
	return s, nil
}

// put replaces the entries of a session. The caller holds mu.
func (m *Memory) put(k Key, all []kept) {
	if m.sessions == nil {
		m.sessions = make(map[Key][]kept)
	}
	m.sessions[k] = all
}

// Read implements [Store].
func (m *Memory) Read(ctx context.Context, k Key, spans []Span) iter.Seq2[message.Message, error] {
	return ReadPages(ctx, k, spans, func(ctx context.Context, s Span, most int) (page []Entry, more bool, err error) {
		if err := ctxcause.Of(ctx); err != nil {
			return nil, false, err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		all := m.sessions[k]
		i, _ := slices.BinarySearchFunc(all, s.From, func(e kept, n int64) int { return cmp.Compare(e.Through, n) })
		for ; i < len(all) && all[i].From <= s.Through && len(page) < most; i++ {
			page = append(page, all[i].Entry)
		}
		return page, len(page) == most, nil
	})
}

// Copy implements [Store].
func (m *Memory) Copy(ctx context.Context, from, to Key, spans []Span) error {
	if err := cmp.Or(ValidateCopy(from, to, spans), ctxcause.Of(ctx)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.Clone(m.sessions[to])
	there := len(all)
	for _, e := range m.sessions[from] {
		if !e.meets(spans) {
			continue
		}
		i := slices.IndexFunc(all[:there], func(o kept) bool { return o.meets([]Span{e.Span}) })
		switch {
		case i < 0:
			all = append(all, kept{e.Entry, "", time.Now()})
		case all[i].Span != e.Span || !bytes.Equal(all[i].Body, e.Body):
			return ErrTaken
		}
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Compare(a.From, b.From) })
	m.put(to, all)
	return nil
}

// Trim implements [Store].
func (m *Memory) Trim(ctx context.Context, k Key, spans []Span, before time.Time) (deleted int, err error) {
	if err := cmp.Or(ValidateRead(k, spans), ctxcause.Of(ctx)); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.sessions[k]
	var left []kept
	for i, e := range all {
		stays := e.meets(spans) || i == len(all)-1 || !e.at.Before(before)
		if len(spans) == 0 && before.IsZero() {
			stays = false
		}
		if stays {
			left = append(left, e)
		} else {
			deleted += int(e.count())
		}
	}
	if m.put(k, left); len(left) == 0 {
		delete(m.sessions, k)
	}
	return deleted, nil
}

// Raise implements [Raiser].
func (m *Memory) Raise(ctx context.Context) error {
	if err := ctxcause.Of(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.raised = max(m.raised, time.Now().UnixMicro())
	return nil
}
