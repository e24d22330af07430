package checkpointtest_test

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/suite"
)

func TestSuiteConvictsLabels(t *testing.T) {
	at := func(change func(time.Time) time.Time) func() store {
		return appending(func(_ mutant, a *appended) {
			a.Labels = slices.Clone(a.Labels)
			for i := range a.Labels {
				if !a.Labels[i].At.IsZero() {
					a.Labels[i].At = change(a.Labels[i].At)
				}
			}
		})
	}
	convict(t, map[string]conviction{
		"no labels at all":              {"labels", appending(func(_ mutant, a *appended) { a.Relabel, a.Labels = false, nil })},
		"each turn relabels":            {"labels", appending(func(_ mutant, a *appended) { a.Relabel = true })},
		"labels are only added":         {"labels", func() store { return &adds{mutant: newMutant(), had: map[checkpoint.Key][]checkpoint.Label{}} }},
		"an empty list changes nothing": {"labels", appending(func(_ mutant, a *appended) { a.Relabel = len(a.Labels) > 0 })},
		"a name as a prefix": {"labels-names", func() store {
			return labelsFound{newMutant(), func(q *checkpoint.SessionQuery) {
				q.Label = q.Label[:min(1, len(q.Label))]
			}}
		}},
		"a name is cut":                  {"labels-names", appending(func(_ mutant, a *appended) { cutNames(a) })},
		"some of many labels":            {"labels-many", appending(func(_ mutant, a *appended) { a.Labels = a.Labels[:min(len(a.Labels), 32)] })},
		"some of many sessions":          {"labels-many", listing(func(q *checkpoint.SessionQuery) { q.Limit = cmp.Or(q.Limit, 50) })},
		"By is ignored":                  {"labels-due", listing(func(q *checkpoint.SessionQuery) { q.By = time.Time{} })},
		"By itself is left out":          {"labels-due", listing(func(q *checkpoint.SessionQuery) { q.By = before(q.By) })},
		"never is long ago":              {"labels-due", appending(func(_ mutant, a *appended) { datesAll(a) })},
		"the first At stays":             {"labels-due", func() store { return &firstTimes{newMutant(), map[string]time.Time{}} }},
		"seconds":                        {"labels-milliseconds", at(func(t time.Time) time.Time { return t.Truncate(time.Second) })},
		"rounds up":                      {"labels-milliseconds", at(func(t time.Time) time.Time { return t.Add(time.Millisecond / 2) })},
		"a clock without its zone":       {"labels-milliseconds", at(asUTC)},
		"what is due comes in its order": {"labels-page", func() store { return byTime{newMutant()} }},
		"the label after the limit":      {"labels-page", func() store { return filtersLabels{newMutant()} }},
		"Session forgets the label":      {"labels-page", listing(func(q *checkpoint.SessionQuery) { forgetLabel(q, q.Session != "") })},
		"Owing forgets the label":        {"labels-owing", listing(func(q *checkpoint.SessionQuery) { forgetLabel(q, q.Owing) })},
		"a label forgets Owing":          {"labels-owing", listing(func(q *checkpoint.SessionQuery) { forgetOwing(q) })},
		"whoever asks relabels":          {"labels-refused", func() store { return &relabelsFirst{newMutant()} }},
		"labels outlive Delete":          {"labels-deleted", func() store { return &outlive{newMutant(), map[checkpoint.Key][]checkpoint.Label{}} }},
		"one table for all bots":         {"labels-apart", func() store { return shared{newMutant()} }},
		"a label twice":                  {"labels-invalid", appending(func(_ mutant, a *appended) { a.Labels = slices.Compact(a.Labels) })},
		"By alone":                       {"labels-invalid", listing(func(q *checkpoint.SessionQuery) { q.Label = cmp.Or(q.Label, "x") })},
	})
}

// A sweeper whose labels outlive the session.
func TestSweeperConvictsLabels(t *testing.T) {
	suite.Trial[opener]{Violations: checkpointtest.SweepViolations}.Convict(t, "labels-retired", func() opener {
		return func(ttl time.Duration) sweeping {
			return &outlive{withTTL(ttl), map[checkpoint.Key][]checkpoint.Label{}}
		}
	})
}

func before(t time.Time) time.Time {
	if t.IsZero() || t.UnixMilli() == 0 {
		return t
	}
	return t.Add(-time.Millisecond)
}

func asUTC(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

func cutNames(a *appended) {
	a.Labels = slices.Clone(a.Labels)
	for i := range a.Labels {
		if name := a.Labels[i].Name; len(name) == 256 {
			a.Labels[i].Name = name[2:]
		}
	}
}

func datesAll(a *appended) {
	a.Labels = slices.Clone(a.Labels)
	for i := range a.Labels {
		if a.Labels[i].At.IsZero() {
			a.Labels[i].At = time.Unix(0, 0)
		}
	}
}

func forgetLabel(q *checkpoint.SessionQuery, forget bool) {
	if forget {
		q.Label, q.By = "", time.Time{}
	}
}

func forgetOwing(q *checkpoint.SessionQuery) {
	if q.Label != "" {
		q.Owing, q.Due, q.HeldBack = false, false, 0
	}
}

// adds keeps each label that a session ever had.
type adds struct {
	mutant
	had map[checkpoint.Key][]checkpoint.Label
}

func (s *adds) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	if o.Relabel {
		for _, old := range s.had[l.Key] {
			if !slices.ContainsFunc(o.Labels, func(n checkpoint.Label) bool { return n.Name == old.Name }) {
				o.Labels = append(slices.Clone(o.Labels), old)
			}
		}
		s.had[l.Key] = o.Labels
	}
	return s.mutant.Append(ctx, l, cp, o)
}

// labelsFound changes what is looked for, and what is stored by it.
type labelsFound struct {
	mutant
	change func(*checkpoint.SessionQuery)
}

func (s labelsFound) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	o.Labels = slices.Clone(o.Labels)
	for i := range o.Labels {
		q := checkpoint.SessionQuery{Label: o.Labels[i].Name}
		s.change(&q)
		o.Labels[i].Name = q.Label
	}
	return s.mutant.Append(ctx, l, cp, o)
}

func (s labelsFound) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	s.change(&q)
	return s.mutant.Sessions(ctx, q)
}

// firstTimes keeps the first At of a label.
type firstTimes struct {
	mutant
	at map[string]time.Time
}

func (s *firstTimes) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	o.Labels = slices.Clone(o.Labels)
	for i, label := range o.Labels {
		at, known := s.at[l.Session+"/"+label.Name]
		if !known {
			at = label.At
			s.at[l.Session+"/"+label.Name] = at
		}
		o.Labels[i].At = at
	}
	return s.mutant.Append(ctx, l, cp, o)
}

// byTime lists what is due backwards.
type byTime struct{ mutant }

func (s byTime) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	if q.By.IsZero() {
		return s.mutant.Sessions(ctx, q)
	}
	return func(yield func(string, error) bool) {
		var all []string
		for id, err := range s.mutant.Sessions(ctx, q) {
			if err != nil {
				yield("", err)
				return
			}
			all = append(all, id)
		}
		for _, id := range slices.Backward(all) {
			if !yield(id, nil) {
				return
			}
		}
	}
}

// filtersLabels reads a page of all sessions, and leaves out those without the label.
type filtersLabels struct{ mutant }

func (s filtersLabels) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	page := q
	page.Label, page.By = "", time.Time{}
	if q.Validate() != nil || q.Label == "" {
		page = q
	}
	return func(yield func(string, error) bool) {
		for id, err := range s.mutant.Sessions(ctx, page) {
			one := q
			one.Session, one.Prefix, one.After = id, "", ""
			if err != nil || q.Label == "" {
				if !yield(id, err) {
					return
				}
				continue
			}
			for _, err := range s.mutant.Sessions(ctx, one) {
				if !yield(id, err) {
					return
				}
			}
		}
	}
}

// relabelsFirst writes labels for every lease, whatever becomes of the turn.
type relabelsFirst struct{ mutant }

func (s *relabelsFirst) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	err := s.mutant.Append(ctx, l, cp, o)
	if newest := s.newest(ctx, l.Key); o.Relabel && newest != nil {
		l.Fence = s.fence(l.Key)
		next := checkpoint.Checkpoint{Turn: newest.Turn + 1, RunID: "labels", State: []byte("null")}
		_ = s.mutant.Append(ctx, l, next, checkpoint.AppendOptions{Relabel: true, Labels: o.Labels})
	}
	return err
}

// outlive gives a session the labels of its life before.
type outlive struct {
	mutant
	had map[checkpoint.Key][]checkpoint.Label
}

func (s *outlive) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	if o.Relabel {
		s.had[l.Key] = o.Labels
	} else if cp.Turn == 0 {
		o.Relabel, o.Labels = true, s.had[l.Key]
	}
	return s.mutant.Append(ctx, l, cp, o)
}

// shared lists the sessions of all bots that have the label.
type shared struct{ mutant }

func (s shared) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	if q.Label == "" {
		return s.mutant.Sessions(ctx, q)
	}
	return func(yield func(string, error) bool) {
		for _, bot := range []string{q.Orchestrator, q.Orchestrator + "2"} {
			q.Orchestrator = bot
			for id, err := range s.mutant.Sessions(ctx, q) {
				if !yield(id, err) {
					return
				}
			}
		}
	}
}
