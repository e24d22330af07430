package workflow

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
	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/internal/retention"
	"github.com/holdfast-go/holdfast/lock"
)

// Memory is a Store that lives and dies with the process. It is for tests: in a testing/synctest bubble days pass in no
// time. The zero value is ready.
type Memory struct {
	// MaxAge is the most that a run may be kept after its end. 0 means WORKFLOWS_MAX_RETENTION_DAYS, or 365 days.
	MaxAge time.Duration

	// FailUnknown ends as failed the runs that Sweep would hold as HoldUnknown.
	FailUnknown bool

	processes
	home

	mu       sync.Mutex // protects following fields
	runs     map[string]*memoryRun
	keys     map[[2]string]*memoryRun
	children map[string]map[string]*memoryRun // of each run, by id
	beaten   map[string]time.Time
	noted    map[Definition]map[string]time.Time // when each process noted it
	limits   map[string]bucket                   // by workflow
	topics   map[string]Subscription

	listening sync.Mutex // protects following fields
	listeners map[int]func(Note)
	listener  int
}

type (
	processes = lock.Processes
	home      = pulse.Home
)

var (
	_ Store       = (*Memory)(nil)
	_ Listener    = (*Memory)(nil)
	_ lock.Beater = (*Memory)(nil)
	_ lock.Raiser = (*Memory)(nil)
)

// A bucket has the tokens of a workflow with a limit, as of a time.
type bucket struct {
	tokens float64
	at     time.Time
}

// A memoryRun is a run with what no reader sees.
type memoryRun struct {
	Run
	fence   lock.Fence
	mail    int64
	match   json.RawMessage
	since   time.Time // when its owner got it, or since when it waits
	forever bool      // only a signal or a Resume wakes it

	crashes int // of owners in a row, without progress
	crashed int // rows of the journal at the last one

	steps   map[string]Step
	signals []Step
	taken   map[string]bool // the ids of signals that waits have taken
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// open makes the maps. The caller holds mu.
func (m *Memory) open() {
	if m.runs == nil {
		m.runs, m.keys = make(map[string]*memoryRun), make(map[[2]string]*memoryRun)
		m.beaten, m.noted = make(map[string]time.Time), make(map[Definition]map[string]time.Time)
		m.children = make(map[string]map[string]*memoryRun)
		m.limits = make(map[string]bucket)
		m.topics = make(map[string]Subscription)
	}
}

// Beat implements lock.Beater.
func (m *Memory) Beat(ctx context.Context, process string) (map[string]int64, error) {
	beats, err := m.processes.Beat(ctx, process)
	if err == nil && process != "" {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.open()
		m.beaten[process] = now()
	}
	return beats, err
}

// Start implements Front.
func (m *Memory) Start(ctx context.Context, runs []NewRun) ([]Started, error) {
	if err := cmp.Or(ValidateStart(runs), ctxcause.Of(ctx)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	if slices.ContainsFunc(runs, func(n NewRun) bool { return n.Owner == "" }) {
		defer m.tell(Note{})
	}
	defer m.mu.Unlock()
	m.open()
	started := make([]Started, len(runs))
	for i := range runs {
		n := &runs[i]
		r := cmp.Or(m.runs[n.ID], m.keys[[2]string{n.Workflow, n.Key}])
		if r == nil {
			if err := m.admit(n); err != nil {
				return nil, err
			}
		}
		if r == nil || n.Debounce && r.ID != n.ID {
			continue
		}
		if !n.Debounce && !equal(r.Input, n.Input) || r.Workflow != n.Workflow {
			return nil, ErrKeyReused
		}
		started[i] = Started{ID: r.ID, Version: r.Version, Status: r.Status}
	}
	for i := range runs {
		if started[i].ID == "" {
			if r := m.debounce(&runs[i]); r != nil {
				started[i] = Started{ID: r.ID, Version: r.Version, Status: Running}
				continue
			}
			r := m.add(&runs[i])
			started[i] = Started{ID: r.ID, Version: r.Version, Status: Running, New: true}
		}
	}
	return started, nil
}

// admit refuses a run whose parent is not running, or that begins at a step which is not there. The caller holds mu.
func (m *Memory) admit(n *NewRun) error {
	if n.From != "" {
		if from := m.runs[n.From]; from == nil || from.steps[n.FromStep].Name == "" {
			return ErrNotFound
		}
	}
	if n.Parent == "" {
		return nil
	}
	switch parent := m.runs[n.Parent]; {
	case parent == nil:
		return ErrNotFound
	case parent.Status != Running:
		return ErrOver
	}
	return nil
}

// debounce moves the run that has the key of a debounced start, and returns it. If the run has begun or is over, it
// loses its key, and debounce returns nil. The caller holds mu.
func (m *Memory) debounce(n *NewRun) *memoryRun {
	r := m.keys[[2]string{n.Workflow, n.Key}]
	switch {
	case !n.Debounce || r == nil:
		return nil
	case r.Status != Running || r.fence.Nonce != "":
		r.Key = ""
		return nil
	}
	if r.Input = document(n.Input); !r.forever {
		r.Due = now().Add(n.Delay)
	}
	return r
}

// add adds a run. The caller holds mu.
func (m *Memory) add(n *NewRun) *memoryRun {
	at := now()
	r := &memoryRun{
		Run: Run{
			ID: n.ID, Workflow: n.Workflow, Version: cmp.Or(n.Version, m.version(n.Workflow)), Status: Running,
			Input: document(n.Input), Key: n.Key, Parent: n.Parent, Group: n.Group, Started: at, Owner: n.Owner,
			RetentionDays: retention.Days(n.RetentionDays, retention.MostDays(m.MaxAge)),
		},
		fence: n.Fence, since: at, crashed: -1, steps: make(map[string]Step), taken: make(map[string]bool),
	}
	if n.Owner == "" {
		r.Due = at.Add(n.Delay)
	}
	if n.From != "" {
		r.fence.Epoch = 1 // its first owner has to read the journal
		r.steps = m.runs[n.From].before(n.FromStep)
	}
	m.runs[n.ID] = r
	if n.Key != "" {
		m.keys[[2]string{n.Workflow, n.Key}] = r
	}
	if n.Parent != "" {
		if m.children[n.Parent] == nil {
			m.children[n.Parent] = make(map[string]*memoryRun)
		}
		m.children[n.Parent][n.ID] = r
	}
	return r
}

// version returns the version of a start that gives none. The caller holds mu.
func (m *Memory) version(workflow string) int {
	living, kept := 0, 0
	for d, processes := range m.noted {
		for _, at := range processes {
			if d.Workflow == workflow && now().Sub(at) < LivingFor {
				living = max(living, d.Version)
			}
		}
	}
	for _, r := range m.runs {
		if r.Workflow == workflow {
			kept = max(kept, r.Version)
		}
	}
	return cmp.Or(living, kept, 1)
}

// document returns a copy of doc. nil is null.
func document(doc json.RawMessage) json.RawMessage {
	if doc == nil {
		return json.RawMessage("null")
	}
	return slices.Clone(doc)
}

// Runs implements Front. It yields the runs that were there when it was called.
func (m *Memory) Runs(ctx context.Context, q Query) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		if err := cmp.Or(q.Validate(), ctxcause.Of(ctx)); err != nil {
			yield(Run{}, err)
			return
		}
		for _, r := range m.selected(&q) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (m *Memory) selected(q *Query) []Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*memoryRun
	for _, r := range m.runs {
		if r.fits(q) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *memoryRun) int {
		if q.Event != "" {
			return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.ID, b.ID))
		}
		if q.KeyPrefix != "" {
			return cmp.Compare(b.Key, a.Key)
		}
		return newer(&a.Run, &b.Run)
	})
	if q.Limit > 0 && len(all) > q.Limit {
		all = all[:q.Limit]
	}
	runs := make([]Run, len(all))
	for i, r := range all {
		runs[i] = r.Run
		runs[i].Input, runs[i].Output = slices.Clone(r.Input), slices.Clone(r.Output)
		if r.forever {
			runs[i].Due = time.Time{}
		}
	}
	return runs
}

// newer orders the runs of a list.
func newer(a, b *Run) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.ID, a.ID)) }

func (r *memoryRun) fits(q *Query) bool {
	return (q.ID == "" || r.ID == q.ID) && (q.Workflow == "" || r.Workflow == q.Workflow) &&
		(q.Status == "" || r.Status == q.Status) && (q.Parent == "" || r.Parent == q.Parent) &&
		!r.Started.Before(q.Since) &&
		(q.Until.IsZero() || r.Started.Before(q.Until)) && Contains(r.Input, q.Input) &&
		(q.After == nil || newer(q.After, &r.Run) < 0) && strings.HasPrefix(r.Key, q.KeyPrefix) &&
		(q.Event == "" || r.waits() && r.Event == q.Event && Contains(document(q.Payload), r.match))
}

// waits reports whether a signal may wake the run.
func (r *memoryRun) waits() bool {
	return r.Status == Running && r.Owner == "" && r.Hold == "" && r.Event != ""
}

// Steps implements Front.
func (m *Memory) Steps(ctx context.Context, run string) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		if err := cmp.Or(ValidateRun(run), ctxcause.Of(ctx)); err != nil {
			yield(Step{}, err)
			return
		}
		for _, st := range m.journal(run) {
			st.Output = slices.Clone(st.Output)
			if !yield(st, nil) {
				return
			}
		}
	}
}

func (m *Memory) journal(run string) []Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[run]
	if r == nil {
		return nil
	}
	all := slices.SortedFunc(maps.Values(r.steps), func(a, b Step) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range r.signals {
		if !r.taken[s.Signal] {
			all = append(all, s)
		}
	}
	return all
}

// Counts implements Front.
func (m *Memory) Counts(ctx context.Context, of ...Status) (map[string]map[Status]int, error) {
	if err := cmp.Or(ValidateStatuses(of), ctxcause.Of(ctx)); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := make(map[string]map[Status]int)
	for _, r := range m.runs {
		if len(of) > 0 && !slices.Contains(of, r.Status) {
			continue
		}
		if counts[r.Workflow] == nil {
			counts[r.Workflow] = make(map[Status]int)
		}
		counts[r.Workflow][r.Status]++
	}
	return counts, nil
}

// Subscribe implements Subscriptions.
func (m *Memory) Subscribe(ctx context.Context, s Subscription) error {
	if err := cmp.Or(s.Validate(), ctxcause.Of(ctx)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open()
	switch old, ok := m.topics[s.ID]; {
	case ok && old != s:
		return ErrKeyReused
	case !ok && len(m.topics) >= MaxSubscriptions:
		return ErrSubscriptions
	}
	m.topics[s.ID] = s
	return nil
}

// Unsubscribe implements Subscriptions.
func (m *Memory) Unsubscribe(ctx context.Context, id string) error {
	if err := cmp.Or(ValidateSubscription(id), ctxcause.Of(ctx)); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.topics, id)
	return nil
}

// Subscriptions implements Subscriptions.
func (m *Memory) Subscriptions(ctx context.Context) ([]Subscription, error) {
	if err := ctxcause.Of(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.topics), func(a, b Subscription) int { return cmp.Compare(a.ID, b.ID) }), nil
}

// Sweep implements Store.
func (m *Memory) Sweep(ctx context.Context, limit int) (deleted int, err error) {
	if err := ctxcause.Of(ctx); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := now()
	for id, r := range m.runs {
		switch {
		case r.Status != Running:
			if (limit == 0 || deleted < limit) && at.Sub(r.Completed) > time.Duration(r.RetentionDays)*24*time.Hour {
				delete(m.runs, id)
				delete(m.keys, [2]string{r.Workflow, r.Key})
				delete(m.children[r.Parent], id)
				delete(m.children, id)
				deleted++
			}
		case r.Owner == "" && r.Hold == "" && !r.forever && at.Sub(r.Due) > UnknownAfter && m.unknown(r, at):
			m.holdUnknown(r, at)
		}
	}
	return deleted, nil
}

// unknown reports whether no living process has had the definition of r for a day. The caller holds mu.
func (m *Memory) unknown(r *memoryRun, at time.Time) bool {
	for _, noted := range m.noted[Definition{r.Workflow, r.Version}] {
		if at.Sub(noted) < UnknownAfter {
			return false
		}
	}
	return true
}

func (m *Memory) holdUnknown(r *memoryRun, at time.Time) {
	r.Error = UnknownError(r.Workflow, r.Version)
	if !m.FailUnknown {
		r.Hold = HoldUnknown
		return
	}
	r.Status, r.Completed, r.Due, r.Event, r.fence.Epoch = Failed, at, time.Time{}, "", r.fence.Epoch+1
}

// Raise implements lock.Raiser. It takes every run from its owner, and makes it due.
func (m *Memory) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	if err := ctxcause.Of(ctx); err != nil {
		return 0, err
	}
	defer m.tell(Note{})
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.runs {
		if r.Status == Running && r.Owner != "" {
			r.fence.Epoch, r.Owner, r.Due = r.fence.Epoch+1, "", now()
			ended++
		}
	}
	return ended, nil
}

// Listen implements Listener.
func (m *Memory) Listen(ctx context.Context, hear func(Note)) {
	m.listening.Lock()
	if m.listeners == nil {
		m.listeners = make(map[int]func(Note))
	}
	m.listener++
	me := m.listener
	m.listeners[me] = hear
	m.listening.Unlock()
	hear(Note{}) // what was told until now, hear has not heard
	<-ctx.Done()
	m.listening.Lock()
	delete(m.listeners, me)
	m.listening.Unlock()
}

// Hears implements Listener: there are no other processes.
func (m *Memory) Hears() bool { return true }

// Tell implements Listener.
func (m *Memory) Tell(n Note) { m.tell(n) }

func (m *Memory) tell(notes ...Note) {
	m.listening.Lock()
	all := slices.Collect(maps.Values(m.listeners))
	m.listening.Unlock()
	for _, n := range notes {
		for _, hear := range all {
			hear(n)
		}
	}
}
