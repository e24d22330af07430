package workflowtest

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

// These cannot be ids, documents and names of a workflow, of a step and of an event.
var (
	badIDs = map[string]string{
		"no id": "", "a long id": strings.Repeat("x", 513), "an id with NUL": "a\x00b", "an id of bytes": "\xff",
	}
	badDocuments = map[string]string{
		"no JSON": `{`, "two documents": `{} {}`, "U+0000": `{"a":"\u0000"}`, "a lone surrogate": `"\ud800"`,
		"a number too large": `1e999999`, "too deep": strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
		"broken UTF-8": "\"\xff\"", "more than 1 MiB": string(large(workflow.MaxValue + 1)), "spaces": " ",
	}
	badNames = map[string]string{
		"no name": "", "a long name": strings.Repeat("x", 49), "capitals": "Flow", "a dot": "a.b", "a line": "a\n",
		"another alphabet": "é",
	}
	badStepNames = map[string]string{
		"no step": "", "a long step": strings.Repeat("x", 129), "a step with a space": "a b", "an empty branch": "a//b",
		"a slash before": "/a", "a slash behind": "a/", "a step with a line": "a\n",
		"a long step of a branch": "a/" + strings.Repeat("x", 129),
		"too many branches":       strings.Repeat("a/", 512) + "a",
	}
)

// into adds changes that put each bad text in its place.
func into[T any](all map[string]func(*T), bad map[string]string, where string, put func(*T, string)) {
	for what, text := range bad {
		all[where+": "+what] = func(v *T) { put(v, text) }
	}
}

// without returns bad texts without the empty one.
func without(bad map[string]string) map[string]string {
	all := maps.Clone(bad)
	maps.DeleteFunc(all, func(_, text string) bool { return text == "" })
	return all
}

var badRuns = func() map[string]func(*workflow.NewRun) {
	type run = workflow.NewRun
	all := map[string]func(*run){
		"a negative version":    func(n *run) { n.Version = -1 },
		"a great version":       func(n *run) { n.Version = 1<<30 + 1 },
		"negative days":         func(n *run) { n.RetentionDays = -1 },
		"an owner and a delay":  func(n *run) { n.Delay = time.Second },
		"a negative delay":      func(n *run) { n.Owner, n.Delay = "", -1 },
		"a delay over a year":   func(n *run) { n.Owner, n.Delay = "", workflow.MaxDelay+1 },
		"an owner and no epoch": func(n *run) { n.Fence.Epoch = 0 },
		"a negative epoch":      func(n *run) { n.Fence.Epoch = -1 },
		"no key to debounce by": func(n *run) { n.Owner, n.Debounce = "", true },
		"an owner, debounced":   func(n *run) { n.Key, n.Debounce = "k", true },
		"an id twice":           func(n *run) { n.ID = "before" },
		"a parent beside it":    func(n *run) { n.Parent = "before" },
		"itself as parent":      func(n *run) { n.Parent = n.ID },
		"a fork of itself":      func(n *run) { n.Owner, n.From, n.FromStep = "", n.ID, "s" },
		"a fork that is owned":  func(n *run) { n.From, n.FromStep = "r", "s" },
		"a fork with a parent":  func(n *run) { n.Owner, n.Parent, n.From, n.FromStep = "", "p", "r", "s" },
		"a fork from no step":   func(n *run) { n.Owner, n.From = "", "r" },
		"a step of no run":      func(n *run) { n.Owner, n.FromStep = "", "s" },
	}
	into(all, badIDs, "run", func(n *run, id string) { n.ID = id })
	into(all, without(badIDs), "key", func(n *run, id string) { n.Key = id })
	into(all, without(badIDs), "group", func(n *run, id string) { n.Group = id })
	into(all, without(badIDs), "owner", func(n *run, id string) { n.Owner = id })
	into(all, without(badIDs), "parent", func(n *run, id string) { n.Parent = id })
	into(all, badIDs, "nonce", func(n *run, id string) { n.Fence.Nonce = id })
	into(all, badNames, "workflow", func(n *run, name string) { n.Workflow = name })
	into(all, badDocuments, "input", func(n *run, doc string) { n.Input = json.RawMessage(doc) })
	return all
}()

var badMessages = func() map[string]func(*workflow.Message) {
	type message = workflow.Message
	all := map[string]func(*message){
		"no action":         func(m *message) { m.Action = "" },
		"an unknown action": func(m *message) { m.Action = "wish" },
		"any event":         func(m *message) { m.Event = workflow.AnyEvent },
	}
	into(all, badIDs, "run", func(m *message, id string) { m.Run = id })
	into(all, badIDs, "signal", func(m *message, id string) { m.ID = id })
	into(all, badIDs, "event", func(m *message, id string) { m.Event = id })
	into(all, badStepNames, "step", func(m *message, name string) { m.Action, m.Event = workflow.Rewind, name })
	into(all, badIDs, "cancelled run", func(m *message, id string) { m.Run, m.Action = id, workflow.Cancel })
	into(all, badDocuments, "payload", func(m *message, doc string) { m.Payload = json.RawMessage(doc) })
	return all
}()

var badEntries = func() map[string]func(*workflow.Entry) {
	type entry = workflow.Entry
	all := map[string]func(*entry){
		"no epoch":             func(e *entry) { e.Fence.Epoch = 0 },
		"two entries of a run": func(e *entry) { e.Run = "other" },
		"an unknown Next":      func(e *entry) { e.Next = workflow.Record + 1 },
		"a negative Next":      func(e *entry) { e.Next = -1 },
		"negative mail":        func(e *entry) { e.Mail = -2 },
		"a negative After":     func(e *entry) { e.Next, e.After = workflow.Park, -1 },
		"an After over a year": func(e *entry) { e.Next, e.After = workflow.Park, workflow.MaxDelay+1 },
		"a Due out of reach":   func(e *entry) { e.Next, e.Due = workflow.Park, time.Unix(1<<40, 0) },
		"an end that runs":     func(e *entry) { e.Next, e.Status = workflow.End, workflow.Running },
		"an end without a why": func(e *entry) { e.Next, e.Status = workflow.End, "" },
		"a stop without a why": func(e *entry) { e.Next, e.Held = workflow.Stop, "" },
		"a stop as paused":     func(e *entry) { e.Next, e.Held = workflow.Stop, workflow.Paused },
		"a stop as unknown":    func(e *entry) { e.Next, e.Held = workflow.Stop, workflow.HoldUnknown },
		"a step twice":         func(e *entry) { e.Steps[1].Name = e.Steps[0].Name },
		"a long error":         func(e *entry) { e.Error = strings.Repeat("x", workflow.MaxError+1) },
		"an error with NUL":    func(e *entry) { e.Error = "a\x00" },
		"an error of bytes":    func(e *entry) { e.Error = "\xff" },
	}
	for what, change := range badSteps {
		all["a step with "+what] = func(e *entry) { change(&e.Steps[1]) }
		all["a late step with "+what] = func(e *entry) {
			e.Next = workflow.Record
			change(&e.Steps[0])
		}
	}
	into(all, badIDs, "run", func(e *entry, id string) { e.Run = id })
	into(all, badIDs, "nonce", func(e *entry, id string) { e.Fence.Nonce = id })
	into(all, without(badIDs), "event", func(e *entry, id string) { e.Next, e.Event = workflow.Park, id })
	into(all, badDocuments, "output", func(e *entry, doc string) {
		e.Next, e.Status, e.Output = workflow.End, workflow.Completed, json.RawMessage(doc)
	})
	into(all, badDocuments, "match", func(e *entry, doc string) {
		e.Next, e.Event, e.Match = workflow.Park, "e", json.RawMessage(doc)
	})
	return all
}()

var badSteps = func() map[string]func(*workflow.Step) {
	type step = workflow.Step
	all := map[string]func(*step){
		"a negative index":      func(s *step) { s.Index = -1 },
		"too great an index":    func(s *step) { s.Index = workflow.MaxSteps },
		"negative attempts":     func(s *step) { s.Attempts = -1 },
		"many attempts":         func(s *step) { s.Attempts = 1<<30 + 1 },
		"a negative time":       func(s *step) { s.Took = -1 },
		"a time over a year":    func(s *step) { s.Took = workflow.MaxDelay + 1 },
		"a negative sleep":      func(s *step) { s.For = -1 },
		"a sleep over a year":   func(s *step) { s.For = workflow.MaxDelay + 1 },
		"an Until out of reach": func(s *step) { s.Until = time.Unix(1<<40, 0) },
		"no kind":               func(s *step) { s.Kind = "" },
		"the kind of a signal":  func(s *step) { s.Kind = workflow.KindSignal },
		"no outcome":            func(s *step) { s.Outcome = "" },
		"an unknown outcome":    func(s *step) { s.Outcome = "maybe" },
		"a long error":          func(s *step) { s.Error = strings.Repeat("x", workflow.MaxError+1) },
		"an error with NUL":     func(s *step) { s.Error = "\x00" },
		"an error of bytes":     func(s *step) { s.Error = "a\xff" },
	}
	into(all, badStepNames, "a name", func(s *step, name string) { s.Name = name })
	into(all, without(badIDs), "a signal", func(s *step, id string) { s.Signal = id })
	into(all, badDocuments, "an output", func(s *step, doc string) { s.Output = json.RawMessage(doc) })
	return all
}()

var badRequests = func() map[string]func(*workflow.ClaimRequest) {
	type request = workflow.ClaimRequest
	all := map[string]func(*request){
		"a negative limit":       func(q *request) { q.Limit = -1 },
		"too great a limit":      func(q *request) { q.Limit = workflow.MaxBatch + 1 },
		"From and Again":         func(q *request) { q.From, q.Again = "a", "n" },
		"From and Lease":         func(q *request) { q.From, q.Lease, q.MostCrashes = "a", time.Hour, 1 },
		"Again and Lease":        func(q *request) { q.Again, q.Lease = "a", time.Hour },
		"a negative lease":       func(q *request) { q.Lease, q.MostCrashes = -1, 1 },
		"a lease over a year":    func(q *request) { q.Lease, q.MostCrashes = workflow.MaxDelay+1, 1 },
		"no crashes with From":   func(q *request) { q.From = "a" },
		"no crashes with Lease":  func(q *request) { q.Lease = time.Hour },
		"a definition without 1": func(q *request) { q.Definitions = []workflow.Definition{{Workflow: flow}} },
		"a great version": func(q *request) {
			q.Definitions = []workflow.Definition{{Workflow: flow, Version: 1<<30 + 1}}
		},
	}
	for what, l := range map[string]workflow.Limit{
		"a negative number of runs": {Runs: -1}, "a negative number of a group": {EachGroup: -1},
		"too great a number of runs": {Runs: 1 << 40}, "too great a number of a group": {EachGroup: 1 << 40},
		"a negative rate": {PerSecond: -1}, "too high a rate": {PerSecond: 1e7}, "too low a rate": {PerSecond: 1e-7},
		"no rate": {PerSecond: math.NaN()}, "an endless rate": {PerSecond: math.Inf(1)},
	} {
		all["a limit with "+what] = func(q *request) { q.Limits = map[string]workflow.Limit{flow: l} }
	}
	into(all, badNames, "limited", func(q *request, name string) { q.Limits = map[string]workflow.Limit{name: {}} })
	into(all, badIDs, "process", func(q *request, id string) { q.Process = id })
	into(all, badIDs, "nonce", func(q *request, id string) { q.Nonce = id })
	into(all, without(badIDs), "from", func(q *request, id string) { q.From, q.MostCrashes = id, 1 })
	into(all, without(badIDs), "again", func(q *request, id string) { q.Again = id })
	into(all, badNames, "definition", func(q *request, name string) {
		q.Definitions = slices.Concat(definition, []workflow.Definition{{Workflow: name, Version: 1}})
	})
	return all
}()

var badQueries = func() map[string]func(*workflow.Query) {
	type query = workflow.Query
	all := map[string]func(*query){
		"an unknown status":      func(q *query) { q.Status = "maybe" },
		"a negative limit":       func(q *query) { q.Limit = -1 },
		"any event":              func(q *query) { q.Event = workflow.AnyEvent },
		"Event and After":        func(q *query) { q.Event, q.After = "e", &workflow.Run{ID: "r"} },
		"After and no id":        func(q *query) { q.After = &workflow.Run{} },
		"a Since out of reach":   func(q *query) { q.Since = time.Unix(1<<40, 0) },
		"an Until out of reach":  func(q *query) { q.Until = time.Unix(-1<<40, 0) },
		"an After out of reach":  func(q *query) { q.After = &workflow.Run{ID: "r", Started: time.Unix(1<<40, 0)} },
		"an After of bytes":      func(q *query) { q.After = &workflow.Run{ID: "\xff"} },
		"an event that is bytes": func(q *query) { q.Event = "\xff" },
		"keys of all workflows":  func(q *query) { q.KeyPrefix = "k" },
		"a key and an id":        func(q *query) { q.Workflow, q.KeyPrefix, q.ID = flow, "k", "r" },
		"a key and an event":     func(q *query) { q.Workflow, q.KeyPrefix, q.Event = flow, "k", "e" },
		"a key and After": func(q *query) {
			q.Workflow, q.KeyPrefix, q.After = flow, "k", &workflow.Run{ID: "r", Started: time.Unix(1, 0)}
		},
	}
	into(all, without(badIDs), "run", func(q *query, id string) { q.ID = id })
	into(all, without(badIDs), "parent", func(q *query, id string) { q.Parent = id })
	into(all, without(badIDs), "key", func(q *query, id string) { q.Workflow, q.KeyPrefix = flow, id })
	into(all, without(badNames), "workflow", func(q *query, name string) { q.Workflow = name })
	into(all, badDocuments, "input", func(q *query, doc string) { q.Input = json.RawMessage(doc) })
	into(all, badDocuments, "payload", func(q *query, doc string) { q.Event, q.Payload = "e", json.RawMessage(doc) })
	return all
}()
