package inboxtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
)

// A probe is a store whose verbs leave the clause if they fail. Only the clause's goroutine may call them.
type probe struct {
	ctx   context.Context
	store inbox.Store
}

func key(session string) inbox.Key { return inbox.Key{Orchestrator: "bot", Session: session} }

// item returns an item that can be posted.
func item(session string, kind inbox.Kind, id, by string) inbox.Item {
	data, err := json.Marshal(map[string]string{"by": by, "id": id})
	ok(err)
	return inbox.Item{Key: key(session), Kind: kind, ID: id, By: by, Shown: "sum of " + id, Data: data}
}

// answer returns an answer of Ada in session s.
func answer(id string) inbox.Item { return item("s", inbox.Answer, id, "ada") }

// post posts items, each of which must be the first.
func (p *probe) post(all ...inbox.Item) {
	for _, it := range all {
		p.wantFirst(it, true)
	}
}

func (p *probe) wantFirst(it inbox.Item, want bool) {
	first, err := p.store.Post(p.ctx, it)
	ok(err)
	if first != want {
		fail("Post of %s %q by %q: first is %t, want %t", it.Kind, it.ID, it.By, first, want)
	}
}

func (p *probe) items(k inbox.Key, kind inbox.Kind) (all []inbox.Item) {
	for it, err := range p.store.Items(p.ctx, k, kind) {
		ok(err)
		all = append(all, it)
	}
	return all
}

func (p *probe) remove(k inbox.Key, kind inbox.Kind, ids ...string) {
	ok(p.store.Remove(p.ctx, k, kind, ids...))
}

// wantItems checks that Items yields these items, in this order.
func (p *probe) wantItems(k inbox.Key, kind inbox.Kind, all ...inbox.Item) {
	got := p.items(k, kind)
	if len(got) != len(all) {
		fail("session %q has %d items of kind %q, want %d: %s", k.Session, len(got), kind, len(all), list(got))
	}
	for i := range got {
		if why := differ(got[i], all[i]); why != "" {
			fail("item %d of session %q: %s; all are %s", i, k.Session, why, list(got))
		}
	}
	wantOrder(got)
	for _, it := range all {
		one, err := p.store.Item(p.ctx, it.Key, kind, it.ID)
		ok(err)
		if why := differ(one, it); why != "" {
			fail("item %q of session %q alone: %s", it.ID, it.Session, why)
		}
	}
}

// wantIDs checks the ids of the answers in session s, in any order.
func (p *probe) wantIDs(ids ...string) {
	var got []string
	for _, it := range p.items(key("s"), inbox.Answer) {
		got = append(got, it.ID)
	}
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		fail("the answers are %.200q, want %.200q", got, ids)
	}
}

// wantOrder checks that items are in the order of the contract, by what they say of themselves.
func wantOrder(all []inbox.Item) {
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		switch {
		case a.Session < b.Session:
		case a.Session > b.Session:
			fail("session %q comes after %q", b.Session, a.Session)
		case a.At.After(b.At):
			fail("%q of %v comes after %q of %v", b.ID, b.At, a.ID, a.At)
		case a.At.Equal(b.At) && a.ID >= b.ID:
			fail("%q comes after %q, and both are of %v", b.ID, a.ID, a.At)
		}
	}
}

func list(all []inbox.Item) string {
	var b strings.Builder
	for _, it := range all {
		fmt.Fprintf(&b, "%.20q of %.20q by %.20q; ", it.ID, it.Session, it.By)
	}
	return b.String()
}

// differ returns how an item that was read differs from the item that was posted, or "". The time is the store's.
func differ(got, posted inbox.Item) string {
	switch {
	case got.Key != posted.Key:
		return fmt.Sprintf("key %.40q, want %.40q", got.Key, posted.Key)
	case got.Kind != posted.Kind:
		return fmt.Sprintf("kind %q, want %q", got.Kind, posted.Kind)
	case got.ID != posted.ID:
		return fmt.Sprintf("id %.40q, want %.40q", got.ID, posted.ID)
	case got.By != posted.By:
		return fmt.Sprintf("by %.40q, want %.40q", got.By, posted.By)
	case got.Shown != posted.Shown:
		return fmt.Sprintf("shown %.40q, want %.40q", got.Shown, posted.Shown)
	case !same(got.Data, posted.Data):
		return fmt.Sprintf("data %.200s, want %.200s", got.Data, posted.Data)
	case got.At.IsZero() || got.At.Location() != time.UTC:
		return fmt.Sprintf("posted at %v, want a time in UTC", got.At)
	}
	return ""
}

// same reports whether documents are equal as JSON values. What is no document equals nothing.
func same(got, posted json.RawMessage) bool {
	if got == nil {
		return false
	}
	a, err := jsonvalue.Canonical(got)
	b, other := jsonvalue.Canonical(posted)
	return err == nil && other == nil && string(a) == string(b)
}
