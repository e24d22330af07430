package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// Memory is a Store that lives and dies with the process. The zero value is ready.
type Memory struct {
	mu      sync.Mutex // protects following field
	drawers map[drawer]map[string][]Item
}

var _ Store = (*Memory)(nil)

// A drawer holds the items of one kind for the sessions of one orchestrator: for each session a list, sorted. No list
// is empty.
type drawer struct {
	orchestrator string
	kind         Kind
}

// Schema returns "": Memory has no tables.
func (m *Memory) Schema() string { return "" }

// Post implements [Store].
func (m *Memory) Post(ctx context.Context, it Item) (first bool, err error) {
	if err := checked(ctx, it.Validate()); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := drawer{it.Orchestrator, it.Kind}
	all := m.drawers[d][it.Session]
	if i := slices.IndexFunc(all, func(other Item) bool { return other.ID == it.ID }); i >= 0 {
		return all[i].By == it.By, nil
	}
	it.At = time.Now().UTC().Truncate(time.Microsecond)
	if it = it.clone(); it.Data == nil {
		it.Data = json.RawMessage("null")
	}
	if m.drawers == nil {
		m.drawers = make(map[drawer]map[string][]Item)
	}
	if m.drawers[d] == nil {
		m.drawers[d] = make(map[string][]Item)
	}
	i, _ := slices.BinarySearchFunc(all, it, Item.compare)
	m.drawers[d][it.Session] = slices.Insert(all, i, it)
	return true, nil
}

// compare orders the items of a session.
func (it Item) compare(other Item) int {
	return cmp.Or(it.At.Compare(other.At), strings.Compare(it.ID, other.ID))
}

// clone returns an item that shares no memory with it.
func (it Item) clone() Item {
	it.Data = slices.Clone(it.Data)
	return it
}

// Items implements [Store]. It yields the items that were there when it was called.
func (m *Memory) Items(ctx context.Context, k Key, kind Kind) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if err := checked(ctx, ValidateItems(k, kind)); err != nil {
			yield(Item{}, err)
			return
		}
		for _, it := range m.items(k, kind) {
			if err := ctxcause.Of(ctx); err != nil {
				yield(Item{}, err)
				return
			}
			if !yield(it.clone(), nil) {
				return
			}
		}
	}
}

// Item implements [Store].
func (m *Memory) Item(ctx context.Context, k Key, kind Kind, id string) (Item, error) {
	if err := checked(ctx, ValidateItem(k, kind, id)); err != nil {
		return Item{}, err
	}
	for _, it := range m.items(k, kind) {
		if it.ID == id {
			return it.clone(), nil
		}
	}
	return Item{}, ErrNotFound
}

// items returns what Items yields. An item never changes, so its data need not be copied here.
func (m *Memory) items(k Key, kind Kind) []Item {
	m.mu.Lock()
	defer m.mu.Unlock()
	sessions := m.drawers[drawer{k.Orchestrator, kind}]
	if k.Session != "" {
		return slices.Clone(sessions[k.Session])
	}
	var all []Item
	for _, session := range slices.Sorted(maps.Keys(sessions)) {
		all = append(all, sessions[session]...)
	}
	return all
}

// Remove implements [Store].
func (m *Memory) Remove(ctx context.Context, k Key, kind Kind, ids ...string) error {
	if err := checked(ctx, ValidateRemove(k, kind, ids)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, each := range kind.orAll() {
		m.remove(drawer{k.Orchestrator, each}, k.Session, ids)
	}
	return nil
}

// remove forgets items of a session, or all of them if there are no ids. The caller holds mu.
func (m *Memory) remove(d drawer, session string, ids []string) {
	sessions := m.drawers[d]
	left := slices.DeleteFunc(sessions[session], func(it Item) bool {
		return len(ids) == 0 || slices.Contains(ids, it.ID)
	})
	if len(left) > 0 {
		sessions[session] = left
		return
	}
	if delete(sessions, session); len(sessions) == 0 {
		delete(m.drawers, d)
	}
}

// orAll returns k, or all kinds if k is "".
func (k Kind) orAll() []Kind {
	if k == "" {
		return Kinds()
	}
	return []Kind{k}
}

// checked returns why a call cannot begin.
func checked(ctx context.Context, invalid error) error {
	if invalid != nil {
		return invalid
	}
	return ctxcause.Of(ctx)
}
