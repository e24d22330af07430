package turnlogtest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

// Each broken log must be caught by the clause that it breaks.
func TestSuiteConvicts(t *testing.T) {
	trial := suite.Trial[turnlog.Log]{Violations: turnlogtest.Violations, Tries: 20}
	for name, c := range map[string]struct {
		clause string
		broken func(*turnlog.Memory) turnlog.Log
	}{
		"one entry for each run and phase":    {"another-time", func(m *turnlog.Memory) turnlog.Log { return onePhase{m} }},
		"one entry for each run and time":     {"another-phase", func(m *turnlog.Memory) turnlog.Log { return oneTime{m} }},
		"order is lost":                       {"restore-order", func(m *turnlog.Memory) turnlog.Log { return shuffling{m} }},
		"order is that of the texts of times": {"restore-order", func(m *turnlog.Memory) turnlog.Log { return textual{m} }},
		"another state in silence":            {"changed", func(m *turnlog.Memory) turnlog.Log { return anyState{m} }},
		"another state overwrites":            {"changed", func(m *turnlog.Memory) turnlog.Log { return &overwriting{Memory: m} }},
		"states are compared as texts":        {"repeat-as-value", func(m *turnlog.Memory) turnlog.Log { return comparing{m} }},
		"a repeat is an error":                {"repeat", func(m *turnlog.Memory) turnlog.Log { return strict{m} }},
		"a repeat is another entry":           {"repeat", func(m *turnlog.Memory) turnlog.Log { return &doubling{Memory: m} }},
		"it is read, then written":            {"changed-race", func(m *turnlog.Memory) turnlog.Log { return readsFirst{m} }},
		"runs of a session are one":           {"another-run", func(m *turnlog.Memory) turnlog.Log { return mixing{m} }},
		"runs are compared without case":      {"another-run", func(m *turnlog.Memory) turnlog.Log { return caseless{m} }},
		"unknown is an error":                 {"restore-unknown", func(m *turnlog.Memory) turnlog.Log { return notFound{m} }},
		"a state is kept without checks":      {"values-refused", func(m *turnlog.Memory) turnlog.Log { return trusting{m} }},
		"times are kept in seconds":           {"restore-close", func(m *turnlog.Memory) turnlog.Log { return seconds{m} }},
		"times are local":                     {"record", func(m *turnlog.Memory) turnlog.Log { return local{m} }},
		"what a caller changes later is kept": {"values-aliased", func(m *turnlog.Memory) turnlog.Log { return &aliasing{Memory: m} }},
		"a ctx that is done is not looked at": {"cancelled", func(m *turnlog.Memory) turnlog.Log { return deaf{m} }},
		"what has settled is listed as open":  {"turns", func(m *turnlog.Memory) turnlog.Log { return allOpen{m} }},
		"the last entry decides what is open": {"turns-late", func(m *turnlog.Memory) turnlog.Log { return openByLast{m} }},
		"what has settled never opens":        {"turns-anew", func(m *turnlog.Memory) turnlog.Log { return settledOnce{m} }},
		"a page ends between ties":            {"turns-pages", func(m *turnlog.Memory) turnlog.Log { return losesTies{m} }},
		"a list in the order of runs":         {"turns", func(m *turnlog.Memory) turnlog.Log { return byRun{m} }},
		"age is that of the first entry":      {"turns-old", func(m *turnlog.Memory) turnlog.Log { return oldByFirst{m} }},
		"Prune forgets open turns":            {"prune-keeps", func(m *turnlog.Memory) turnlog.Log { return &forgetsOpen{Memory: m} }},
		"Prune looks at the last entry":       {"prune-late", func(m *turnlog.Memory) turnlog.Log { return prunesByLast{m} }},
		"Prune forgets the line only":         {"prune", func(m *turnlog.Memory) turnlog.Log { return &keepsEntries{Memory: m, old: new(turnlog.Memory)} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, func() turnlog.Log { return c.broken(new(turnlog.Memory)) })
		})
	}
}

// An adapter of two methods passes, and its clauses about lists are skipped.
func TestTwoMethods(t *testing.T) {
	turnlogtest.Run(t, func(*testing.T) turnlog.Log { return bare{new(turnlog.Memory)} })
	turnlogtest.Run(t, func(*testing.T) turnlog.Log {
		return turnlog.New(bare{new(turnlog.Memory)}, turnlogtest.Registry())
	})
}

// Behind New a log passes that loses the order, and gives back each entry twice.
func TestShuffling(t *testing.T) {
	turnlogtest.Run(t, func(*testing.T) turnlog.Log {
		return turnlog.New(shuffling{new(turnlog.Memory)}, turnlogtest.Registry())
	})
}

// bare leaves out Turn and Orchestrator.
type bare struct{ m *turnlog.Memory }

func (l bare) Record(ctx context.Context, e turnlog.Entry) error { return l.m.Record(ctx, e) }

func (l bare) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := l.m.Restore(ctx, run)
	for i := range all {
		all[i].Turn, all[i].Orchestrator = 0, ""
	}
	return all, err
}

type (
	onePhase     struct{ *turnlog.Memory }
	oneTime      struct{ *turnlog.Memory }
	shuffling    struct{ *turnlog.Memory }
	textual      struct{ *turnlog.Memory }
	anyState     struct{ *turnlog.Memory }
	comparing    struct{ *turnlog.Memory }
	strict       struct{ *turnlog.Memory }
	readsFirst   struct{ *turnlog.Memory }
	mixing       struct{ *turnlog.Memory }
	caseless     struct{ *turnlog.Memory }
	notFound     struct{ *turnlog.Memory }
	trusting     struct{ *turnlog.Memory }
	seconds      struct{ *turnlog.Memory }
	local        struct{ *turnlog.Memory }
	deaf         struct{ *turnlog.Memory }
	allOpen      struct{ *turnlog.Memory }
	openByLast   struct{ *turnlog.Memory }
	settledOnce  struct{ *turnlog.Memory }
	losesTies    struct{ *turnlog.Memory }
	byRun        struct{ *turnlog.Memory }
	oldByFirst   struct{ *turnlog.Memory }
	prunesByLast struct{ *turnlog.Memory }
)

// stored returns the first entry of a run that fits.
func stored(m *turnlog.Memory, run string, fits func(turnlog.Entry) bool) (turnlog.Entry, bool) {
	all, err := m.Restore(context.Background(), run)
	if i := slices.IndexFunc(all, fits); err == nil && i >= 0 {
		return all[i], true
	}
	return turnlog.Entry{}, false
}

// same reports whether two entries of a run are one. Their states do not count.
func same(e turnlog.Entry) func(turnlog.Entry) bool {
	return func(f turnlog.Entry) bool { return f.Phase == e.Phase && f.At.Equal(e.At) }
}

func (l onePhase) Record(ctx context.Context, e turnlog.Entry) error {
	if _, known := stored(l.Memory, e.Run, func(f turnlog.Entry) bool { return f.Phase == e.Phase }); known {
		return e.Validate()
	}
	return l.Memory.Record(ctx, e)
}

func (l oneTime) Record(ctx context.Context, e turnlog.Entry) error {
	if _, known := stored(l.Memory, e.Run, func(f turnlog.Entry) bool { return f.At.Equal(e.At) }); known {
		return e.Validate()
	}
	return l.Memory.Record(ctx, e)
}

func (l shuffling) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := l.Memory.Restore(ctx, run)
	all = append(all, all...)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all, err
}

func (l textual) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := l.Memory.Restore(ctx, run)
	slices.SortFunc(all, func(a, b turnlog.Entry) int {
		return strings.Compare(a.At.Format(time.RFC3339Nano), b.At.Format(time.RFC3339Nano))
	})
	return all, err
}

func (l anyState) Record(ctx context.Context, e turnlog.Entry) error {
	if err := l.Memory.Record(ctx, e); !errors.Is(err, turnlog.ErrChanged) {
		return err
	}
	return nil
}

// overwriting gives back the state that came last.
type overwriting struct {
	*turnlog.Memory
	last json.RawMessage
}

func (l *overwriting) Record(ctx context.Context, e turnlog.Entry) error {
	err := l.Memory.Record(ctx, e)
	if errors.Is(err, turnlog.ErrChanged) {
		l.last = e.State
	}
	return err
}

func (l *overwriting) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := l.Memory.Restore(ctx, run)
	for i := range all {
		all[i].State = slices.Clone(json.RawMessage(cmp.Or(string(l.last), string(all[i].State))))
	}
	return all, err
}

func (l comparing) Record(ctx context.Context, e turnlog.Entry) error {
	if f, known := stored(l.Memory, e.Run, same(e)); known && string(f.State) != string(e.State) {
		return turnlog.ErrChanged
	}
	return l.Memory.Record(ctx, e)
}

func (l strict) Record(ctx context.Context, e turnlog.Entry) error {
	if _, known := stored(l.Memory, e.Run, same(e)); known {
		return errors.New("duplicate key")
	}
	return l.Memory.Record(ctx, e)
}

// doubling keeps each call.
type doubling struct {
	*turnlog.Memory
	more []turnlog.Entry
}

func (l *doubling) Record(ctx context.Context, e turnlog.Entry) error {
	if _, known := stored(l.Memory, e.Run, same(e)); known {
		l.more = append(l.more, e)
	}
	return l.Memory.Record(ctx, e)
}

func (l *doubling) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := l.Memory.Restore(ctx, run)
	return append(all, l.more...), err
}

func (l readsFirst) Record(ctx context.Context, e turnlog.Entry) error {
	if _, known := stored(l.Memory, e.Run, same(e)); known {
		return l.Memory.Record(ctx, e)
	}
	for range 100 {
		runtime.Gosched()
	}
	if err := l.Memory.Record(ctx, e); !errors.Is(err, turnlog.ErrChanged) {
		return err
	}
	return nil
}

func (l mixing) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := l.Memory.Restore(ctx, run)
	for s, listed := range l.Memory.Turns(ctx, turnlog.Query{Session: "session"}) {
		if listed == nil && s.First.Run != run && strings.HasPrefix(s.First.Run, run) {
			all = append(all, s.First)
		}
	}
	return all, err
}

func (l caseless) Record(ctx context.Context, e turnlog.Entry) error {
	e.Run = strings.ToLower(e.Run)
	return l.Memory.Record(ctx, e)
}

func (l caseless) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := l.Memory.Restore(ctx, strings.ToLower(run))
	for i := range all {
		all[i].Run = run
	}
	return all, err
}

func (l notFound) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := l.Memory.Restore(ctx, run)
	if err == nil && len(all) == 0 {
		err = errors.New("no rows")
	}
	return all, err
}

func (l trusting) Record(ctx context.Context, e turnlog.Entry) error {
	if err := l.Memory.Record(ctx, e); !errors.Is(err, turnlog.ErrState) {
		return err
	}
	e.State = nil
	return l.Memory.Record(ctx, e)
}

func (l seconds) Record(ctx context.Context, e turnlog.Entry) error {
	e.At = e.At.Truncate(time.Second)
	return l.Memory.Record(ctx, e)
}

func (l local) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := l.Memory.Restore(ctx, run)
	for i := range all {
		all[i].At = all[i].At.In(time.FixedZone("", 3600))
	}
	return all, err
}

// aliasing gives back the very states that it was given.
type aliasing struct {
	*turnlog.Memory
	state json.RawMessage
}

func (l *aliasing) Record(ctx context.Context, e turnlog.Entry) error {
	l.state = e.State
	return l.Memory.Record(ctx, e)
}

func (l *aliasing) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := l.Memory.Restore(ctx, run)
	for i := range all {
		all[i].State = l.state
	}
	return all, err
}

func (l deaf) Record(ctx context.Context, e turnlog.Entry) error {
	return l.Memory.Record(context.WithoutCancel(ctx), e)
}

// turns yields what is left of a list after a filter.
func turns(
	all iter.Seq2[turnlog.Summary, error], keep func(turnlog.Summary) bool,
) iter.Seq2[turnlog.Summary, error] {
	return func(yield func(turnlog.Summary, error) bool) {
		for s, err := range all {
			if (err != nil || keep(s)) && !yield(s, err) {
				return
			}
		}
	}
}

func (l allOpen) Turns(ctx context.Context, q turnlog.Query) iter.Seq2[turnlog.Summary, error] {
	q.Open = false
	return l.Memory.Turns(ctx, q)
}

func (l openByLast) Turns(ctx context.Context, q turnlog.Query) iter.Seq2[turnlog.Summary, error] {
	open := q.Open
	q.Open = false
	return turns(l.Memory.Turns(ctx, q), func(s turnlog.Summary) bool {
		return !open || s.Last.Phase != turnlog.Settled
	})
}

func (l settledOnce) Turns(ctx context.Context, q turnlog.Query) iter.Seq2[turnlog.Summary, error] {
	open := q.Open
	q.Open = false
	return turns(l.Memory.Turns(ctx, q), func(s turnlog.Summary) bool {
		_, settled := stored(l.Memory, s.First.Run, func(e turnlog.Entry) bool { return e.Phase == turnlog.Settled })
		return !open || !settled
	})
}

func (l losesTies) Turns(ctx context.Context, q turnlog.Query) iter.Seq2[turnlog.Summary, error] {
	q.AfterRun = ""
	return l.Memory.Turns(ctx, q)
}

func (l byRun) Turns(ctx context.Context, q turnlog.Query) iter.Seq2[turnlog.Summary, error] {
	return func(yield func(turnlog.Summary, error) bool) {
		var all []turnlog.Summary
		for s, err := range l.Memory.Turns(ctx, q) {
			if err != nil {
				yield(s, err)
				return
			}
			all = append(all, s)
		}
		slices.SortFunc(all, func(a, b turnlog.Summary) int { return strings.Compare(a.First.Run, b.First.Run) })
		for _, s := range all {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func (l oldByFirst) Turns(ctx context.Context, q turnlog.Query) iter.Seq2[turnlog.Summary, error] {
	age := q.OlderThan
	q.OlderThan = 0
	return turns(l.Memory.Turns(ctx, q), func(s turnlog.Summary) bool { return time.Since(s.First.At) >= age })
}

// forgetsOpen forgets all that is old.
type forgetsOpen struct {
	*turnlog.Memory
	gone []string
}

func (l *forgetsOpen) Prune(ctx context.Context, before time.Time) (int, error) {
	n, err := l.Memory.Prune(ctx, before)
	for s, listed := range l.Turns(ctx, turnlog.Query{Open: true}) {
		if listed == nil && s.Last.At.Before(before) {
			l.gone = append(l.gone, s.Last.Run)
			n++
		}
	}
	return n, err
}

func (l *forgetsOpen) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	if slices.Contains(l.gone, run) {
		return nil, nil
	}
	return l.Memory.Restore(ctx, run)
}

func (l prunesByLast) Prune(ctx context.Context, before time.Time) (int, error) {
	for s, err := range l.Turns(ctx, turnlog.Query{}) {
		if err == nil && !s.Last.At.Before(before) {
			return 0, nil
		}
	}
	return l.Memory.Prune(ctx, before)
}

// keepsEntries lists a turn no more after Prune, and still restores it.
type keepsEntries struct {
	*turnlog.Memory
	old *turnlog.Memory
}

func (l *keepsEntries) Record(ctx context.Context, e turnlog.Entry) error {
	return errors.Join(l.old.Record(ctx, e), l.Memory.Record(ctx, e))
}

func (l *keepsEntries) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	return l.old.Restore(ctx, run)
}
