package orchestrator

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// A Choice describes an intent to a router.
type Choice struct{ Name, Description string }

// Next says what runs next. The zero Next has no opinion and leaves the decision to the next in this order: Evaluate,
// the intent's Next or Then, First, Route. From Route, the zero Next is an error.
type Next struct {
	// Intents are the names of the intents to run.
	Intents []string

	// End ends the turn; Intents does not matter then.
	End bool

	// Reason is for people. A resumed turn has lost the Reason of its earlier iterations.
	Reason string

	// each has the items of the intents that run once for each item.
	each map[string]items

	// fault says why the items cannot be kept.
	fault error
}

// items are the items of one intent.
type items struct {
	// count is the number of items. In an event or a step, raw is nil all the same.
	count int
	raw   []json.RawMessage
}

// End ends the turn.
var End = Next{End: true}

// To runs intents, in parallel if there are several.
func To(intents ...string) Next { return Next{Intents: intents} }

// And returns a Next that runs what n runs, and what m runs. It ends the turn if one of them does. If both have items
// for an intent, those of m follow those of n.
func (n Next) And(m Next) Next {
	all := Next{Intents: slices.Concat(n.Intents, m.Intents), End: n.End || m.End, Reason: n.Reason, fault: n.fault}
	if all.Reason == "" {
		all.Reason = m.Reason
	}
	if all.fault == nil {
		all.fault = m.fault
	}
	all.each = maps.Clone(n.each)
	for name, more := range m.each {
		if all.each == nil {
			all.each = make(map[string]items)
		}
		one := all.each[name]
		all.each[name] = items{one.count + more.count, slices.Concat(one.raw, more.raw)}
	}
	return all
}

// Items returns for how many items the intent runs. If each is false, the intent runs once, without an item.
func (n Next) Items(intent string) (count int, each bool) {
	all, each := n.each[intent]
	return all.count, each
}

func (n Next) zero() bool { return !n.End && len(n.Intents) == 0 && n.fault == nil }

// told returns n as events and steps have it: without the items, which may repeat what a user said.
func (n Next) told() Next {
	n.Intents, n.fault = slices.Clone(n.Intents), nil
	if n.each == nil {
		return n
	}
	counts := make(map[string]items, len(n.each))
	for name, all := range n.each {
		counts[name] = items{count: all.count}
	}
	n.each = counts
	return n
}

// ran returns the intents of a decision that have run. An intent without items has not.
func (n Next) ran() []string {
	if n.each == nil {
		return n.Intents
	}
	return slices.DeleteFunc(slices.Clone(n.Intents), func(intent string) bool {
		count, each := n.Items(intent)
		return each && count == 0
	})
}

// A branch is one run of an intent in a dispatch.
type branch struct {
	intent string

	// number counts the items of the intent from 1. It is 0 if the intent runs without an item.
	number int
	item   json.RawMessage
}

// String names the branch.
func (b branch) String() string {
	if b.number == 0 {
		return b.intent
	}
	return b.intent + " item " + strconv.Itoa(b.number)
}

// branches returns the branches of a decision, in its order.
func (n Next) branches() []branch {
	var all []branch
	for _, name := range n.Intents {
		each, ok := n.each[name]
		if !ok {
			all = append(all, branch{intent: name})
		}
		for i, raw := range each.raw {
			all = append(all, branch{name, i + 1, raw})
		}
	}
	return all
}
