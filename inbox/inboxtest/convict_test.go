package inboxtest_test

import (
	"context"
	"encoding/json"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/suite"
)

// Each broken store must be caught by the clause that it breaks.
func TestSuiteConvicts(t *testing.T) {
	trial := suite.Trial[inbox.Store]{Violations: inboxtest.Violations, Tries: 20}
	for name, c := range map[string]struct {
		clause string
		broken func(*inbox.Memory) inbox.Store
	}{
		"the last one stays":                   {"post-second", func(m *inbox.Memory) inbox.Store { return overwriting{m} }},
		"all are first":                        {"post-second", func(m *inbox.Memory) inbox.Store { return allFirst{m} }},
		"a repeat is not the first":            {"post-again", func(m *inbox.Memory) inbox.Store { return firstOnce{m} }},
		"a repeat with other data is an error": {"post-again", func(m *inbox.Memory) inbox.Store { return strict{m} }},
		"By is compared without case":          {"post-by", func(m *inbox.Memory) inbox.Store { return caselessBy{m} }},
		"it is read, then written":             {"race", func(m *inbox.Memory) inbox.Store { return readsFirst{m} }},
		"a repeat while it is posted fails":    {"race-same", func(m *inbox.Memory) inbox.Store { return &busy{Memory: m} }},
		"At is the caller's":                   {"post-at", listsEach(func(it *inbox.Item) { it.At = time.Date(1999, 1, 2, 1, 4, 5, 6, time.UTC) })},
		"At is when it is read":                {"post-at", listsEach(func(it *inbox.Item) { it.At = time.Now().UTC() })},
		"kinds are one":                        {"kinds-apart", func(m *inbox.Memory) inbox.Store { return oneKind{m} }},
		"sessions are compared without case":   {"sessions-apart", func(m *inbox.Memory) inbox.Store { return caseless{m} }},
		"names are joined":                     {"orchestrators-apart", func(m *inbox.Memory) inbox.Store { return joined{m} }},
		"order is lost": {"items-order", lists(func(items []inbox.Item) []inbox.Item {
			rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
			return items
		})},
		"order is that of ids": {"items-order", lists(func(items []inbox.Item) []inbox.Item {
			slices.SortFunc(items, func(a, b inbox.Item) int { return strings.Compare(a.ID, b.ID) })
			return items
		})},
		"one page only":           {"items-many", lists(onePage)},
		"a page of sessions only": {"items-sessions-many", lists(onePage)},
		"all sessions by time": {"items-sessions", lists(func(items []inbox.Item) []inbox.Item {
			slices.SortFunc(items, func(a, b inbox.Item) int { return a.At.Compare(b.At) })
			return items
		})},
		"Session \"\" is a session":       {"items-sessions", func(m *inbox.Memory) inbox.Store { return oneSession{m} }},
		"Items holds the lock":            {"items-loop", func(m *inbox.Memory) inbox.Store { return &locking{m, make(chan struct{}, 1)} }},
		"pages are by number":             {"items-meanwhile", func(m *inbox.Memory) inbox.Store { return byOffset{m} }},
		"a page is as large as it may be": {"values-large", lists(fewBytes)},
		"an early end holds the lock":     {"items-ends", func(m *inbox.Memory) inbox.Store { return &leaking{m, make(chan struct{}, 1)} }},
		"Items reads once":                {"items-twice", func(m *inbox.Memory) inbox.Store { return readsOnce{m} }},
		"Item knows no kinds":             {"item", func(m *inbox.Memory) inbox.Store { return anyItem{m} }},
		"Item of nothing is empty":        {"item", func(m *inbox.Memory) inbox.Store { return emptyItem{m} }},
		"Remove takes a prefix":           {"remove-literally", func(m *inbox.Memory) inbox.Store { return byPrefix{m} }},
		"Remove of nothing is an error":   {"remove-absent", func(m *inbox.Memory) inbox.Store { return notFound{m} }},
		"Remove of a kind removes all":    {"remove-kind", func(m *inbox.Memory) inbox.Store { return anyKind{m} }},
		"Remove of all removes answers":   {"remove-all", func(m *inbox.Memory) inbox.Store { return onlyAnswers{m} }},
		"Remove removes one id":           {"remove", func(m *inbox.Memory) inbox.Store { return oneID{m} }},
		"what was removed is remembered":  {"removed-anew", func(m *inbox.Memory) inbox.Store { return tombstones(m) }},
		"Shown is lost":                   {"values", func(m *inbox.Memory) inbox.Store { return blind{m} }},
		"By is cut":                       {"values", listsEach(func(it *inbox.Item) { it.By = it.By[:min(len(it.By), 255)] })},
		"numbers are floats": {"values-data", listsEach(func(it *inbox.Item) {
			var v any
			if json.Unmarshal(it.Data, &v) == nil {
				it.Data, _ = json.Marshal(v)
			}
		})},
		"nil stays nil": {"values-data", listsEach(func(it *inbox.Item) {
			if string(it.Data) == "null" {
				it.Data = nil
			}
		})},
		"data is not checked":                  {"values-refused", func(m *inbox.Memory) inbox.Store { return trusting{m} }},
		"what a caller changes later is kept":  {"values-aliased", func(m *inbox.Memory) inbox.Store { return &aliasing{Memory: m} }},
		"a ctx that is done is not looked at":  {"cancelled", func(m *inbox.Memory) inbox.Store { return deaf{m} }},
		"a loop goes on without its ctx":       {"cancelled-loop", func(m *inbox.Memory) inbox.Store { return deaf{m} }},
		"Remove writes back what it has read":  {"race-remove", func(m *inbox.Memory) inbox.Store { return writesBack{m} }},
		"Post looks, and Remove comes between": {"race-anew", func(m *inbox.Memory) inbox.Store { return looksFirst{m} }},
		"the list of all is written first":     {"race-anew", func(m *inbox.Memory) inbox.Store { return &unlisted{Memory: m} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial := trial
			trial.Blocking = []string{"items-loop", "items-ends"}
			trial.Convict(t, c.clause, func() inbox.Store { return c.broken(new(inbox.Memory)) })
		})
	}
}

type (
	overwriting struct{ *inbox.Memory }
	anyItem     struct{ *inbox.Memory }
	emptyItem   struct{ *inbox.Memory }
	allFirst    struct{ *inbox.Memory }
	firstOnce   struct{ *inbox.Memory }
	strict      struct{ *inbox.Memory }
	caselessBy  struct{ *inbox.Memory }
	readsFirst  struct{ *inbox.Memory }
	oneKind     struct{ *inbox.Memory }
	caseless    struct{ *inbox.Memory }
	joined      struct{ *inbox.Memory }
	oneSession  struct{ *inbox.Memory }
	byOffset    struct{ *inbox.Memory }
	readsOnce   struct{ *inbox.Memory }
	byPrefix    struct{ *inbox.Memory }
	notFound    struct{ *inbox.Memory }
	anyKind     struct{ *inbox.Memory }
	onlyAnswers struct{ *inbox.Memory }
	oneID       struct{ *inbox.Memory }
	blind       struct{ *inbox.Memory }
	trusting    struct{ *inbox.Memory }
	deaf        struct{ *inbox.Memory }
	writesBack  struct{ *inbox.Memory }
	looksFirst  struct{ *inbox.Memory }
)

// all returns the items of a store, in the order of Items.
func all(s inbox.Store, k inbox.Key, kind inbox.Kind) (items []inbox.Item) {
	for it, err := range s.Items(context.Background(), k, kind) {
		if err != nil {
			return nil
		}
		items = append(items, it)
	}
	return items
}

// stored returns the item of this kind and id.
func stored(s inbox.Store, it inbox.Item) (inbox.Item, bool) {
	if it.Validate() != nil {
		return inbox.Item{}, false
	}
	found := all(s, it.Key, it.Kind)
	i := slices.IndexFunc(found, func(other inbox.Item) bool { return other.ID == it.ID })
	if i < 0 {
		return inbox.Item{}, false
	}
	return found[i], true
}

// A changed store yields what change makes of the items.
type changed struct {
	*inbox.Memory
	change func([]inbox.Item) []inbox.Item
}

func (s changed) Items(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
	return each(s.Memory, s.change)(ctx, k, kind)
}

func lists(change func([]inbox.Item) []inbox.Item) func(*inbox.Memory) inbox.Store {
	return func(m *inbox.Memory) inbox.Store { return changed{m, change} }
}

func listsEach(change func(*inbox.Item)) func(*inbox.Memory) inbox.Store {
	return lists(func(items []inbox.Item) []inbox.Item {
		for i := range items {
			change(&items[i])
		}
		return items
	})
}

func onePage(items []inbox.Item) []inbox.Item { return items[:min(len(items), 100)] }

// fewBytes yields as many items as fit in a page of bytes.
func fewBytes(items []inbox.Item) []inbox.Item {
	left := inbox.MaxData
	for i, it := range items {
		if left -= len(it.Data); left < 0 && i > 0 {
			return items[:i]
		}
	}
	return items
}

// each returns what Items of a store yields, changed.
func each(
	s inbox.Store, change func([]inbox.Item) []inbox.Item,
) func(context.Context, inbox.Key, inbox.Kind) iter.Seq2[inbox.Item, error] {
	return func(ctx context.Context, k inbox.Key, kind inbox.Kind) iter.Seq2[inbox.Item, error] {
		return func(yield func(inbox.Item, error) bool) {
			var items []inbox.Item
			for it, err := range s.Items(ctx, k, kind) {
				if err != nil {
					yield(it, err)
					return
				}
				items = append(items, it)
			}
			for _, it := range change(items) {
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}
