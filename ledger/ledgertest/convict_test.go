package ledgertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
	"github.com/holdfast-go/holdfast/lock"
)

// Each broken ledger must be caught by the clause that it breaks.
func TestSuiteConvicts(t *testing.T) {
	trial := suite.Trial[ledger.Ledger]{Violations: ledgertest.Violations, Tries: 20}
	for name, c := range map[string]struct {
		clause string
		broken func(*ledger.Memory) ledger.Ledger
	}{
		"Adopt leaves what is Issued":       {"adopt-unknown", func(m *ledger.Memory) ledger.Ledger { return forgetsOpen{m, m} }},
		"Adopt of a lower fence":            {"adopt-fenced", func(m *ledger.Memory) ledger.Ledger { return adoptsAny{m} }},
		"Adopt of a run without effects":    {"adopt-first", func(m *ledger.Memory) ledger.Ledger { return adoptsKnown{m} }},
		"Issue under a lower fence":         {"issue-fenced", func(m *ledger.Memory) ledger.Ledger { return issuesAny{m} }},
		"Issue does not adopt":              {"issue-adopts-itself", func(m *ledger.Memory) ledger.Ledger { return issuesOnly{m} }},
		"the repeat of a lost reply is met": {"issue-repeat", func(m *ledger.Memory) ledger.Ledger { return neverRepeats{m} }},
		"a late copy issues": {"issue-late-copy", issuing(func(m *ledger.Memory, e *ledger.Effect, again *bool) {
			if now, ok := one(context.Background(), m, e.ID); ok && *again && now.State.Open() {
				e.Attempts = now.Attempts
			}
		})},
		"again takes another run's": {"issue-of-another-run", func(m *ledger.Memory) ledger.Ledger { return takesAny{m} }},
		"other arguments are taken": {"issue-changed", issuing(func(_ *ledger.Memory, e *ledger.Effect, _ *bool) { e.ArgsSum = "" })},
		"arguments of what is open only": {"issue-changed-final", issuing(func(m *ledger.Memory, e *ledger.Effect, _ *bool) {
			if now, ok := one(context.Background(), m, e.ID); ok && !now.State.Open() {
				e.ArgsSum = ""
			}
		})},
		"what is Completed adopts no run":     {"issue-known-adopts", func(m *ledger.Memory) ledger.Ledger { return completedFirst{m} }},
		"Record reads, then writes":           {"record-race", func(m *ledger.Memory) ledger.Ledger { return recordsBlindly{m} }},
		"an effect is kept with its result":   {"issue-reads", func(m *ledger.Memory) ledger.Ledger { return keepsResult{m} }},
		"times are local":                     {"times", func(m *ledger.Memory) ledger.Ledger { return localTimes{m} }},
		"the second result wins":              {"finish-first-result", func(m *ledger.Memory) ledger.Ledger { return &lastResult{Ledger: m} }},
		"a late failure wins":                 {"finish-late-failure", func(m *ledger.Memory) ledger.Ledger { return anyAttempt{m} }},
		"a late result is refused":            {"finish-late-result", func(m *ledger.Memory) ledger.Ledger { return lastOnly{m} }},
		"an answer is read, then written":     {"answer-race", func(m *ledger.Memory) ledger.Ledger { return readsFirst{m} }},
		"an answer for what is Issued":        {"answer-issued", func(m *ledger.Memory) ledger.Ledger { return alwaysSure{m} }},
		"who answered is forgotten":           {"answer", func(m *ledger.Memory) ledger.Ledger { return namesNobody{m} }},
		"Record overwrites":                   {"record-first", func(m *ledger.Memory) ledger.Ledger { return &recordsLast{Ledger: m} }},
		"open effects are those Issued":       {"effects", func(m *ledger.Memory) ledger.Ledger { return issuedOnly{m} }},
		"answers of all times":                {"effects-answered", func(m *ledger.Memory) ledger.Ledger { return answeredEver{m} }},
		"results are taken for answers":       {"effects-answered", func(m *ledger.Memory) ledger.Ledger { return finishedWithin{m} }},
		"AnsweredWithin is ignored":           {"effects-answered", func(m *ledger.Memory) ledger.Ledger { return answersAll{m} }},
		"Prune forgets keys":                  {"prune-keeps", func(m *ledger.Memory) ledger.Ledger { return &prunesKeys{Ledger: m} }},
		"what a caller changes later is kept": {"values-aliased", func(m *ledger.Memory) ledger.Ledger { return &keepsSlices{Ledger: m} }},
		"a query that is refused yields none": {"values-refused", func(m *ledger.Memory) ledger.Ledger { return quietQueries{m} }},
		"an attempt that never was is taken":  {"finish-late-failure", func(m *ledger.Memory) ledger.Ledger { return laterAttempts{m} }},
		"a ctx that is done is not looked at": {"cancelled", func(m *ledger.Memory) ledger.Ledger { return ignoresCtx{m} }},
		"a failure is the last word":          {"unsure-failed", func(m *ledger.Memory) ledger.Ledger { return failsAnyway{m} }},
		"a failure leaves no text":            {"unsure-failed", func(m *ledger.Memory) ledger.Ledger { return finishChanged{m, wordless} }},
		"an attempt that was Issued is sure": {"unsure-failed", issuing(func(m *ledger.Memory, e *ledger.Effect, _ *bool) {
			if now, ok := one(context.Background(), m, e.ID); ok && now.State == ledger.Issued {
				e.State = ledger.Failed
			}
		})},
		"what is Unsure is forgotten":        {"unsure-issue", func(m *ledger.Memory) ledger.Ledger { return listsChanged{m, sure} }},
		"Issue does not tell what is Unsure": {"unsure-issue", func(m *ledger.Memory) ledger.Ledger { return issueChanged{m, sure} }},
		"each new attempt is Unsure":         {"unsure-failed-only", func(m *ledger.Memory) ledger.Ledger { return listsChanged{m, unsureAgain} }},
		"the caller is not heard":            {"unsure-told", issuing(func(_ *ledger.Memory, e *ledger.Effect, _ *bool) { e.State = "" })},
		"the caller is heard with any State": {"unsure-not-told", issuing(func(_ *ledger.Memory, e *ledger.Effect, _ *bool) {
			if e.State != "" {
				e.State = ledger.Failed
			}
		})},
		"the caller is heard once more":  {"unsure-issue", func(m *ledger.Memory) ledger.Ledger { return &heardTwice{Ledger: m} }},
		"an answer is about one attempt": {"unsure-answer", func(m *ledger.Memory) ledger.Ledger { return answersLast{m} }},
		"an Adopt that makes sure":       {"unsure-adopted", func(m *ledger.Memory) ledger.Ledger { return listsChanged{m, sureUnknown} }},
		"another run's attempt is sure": {"unsure-of-another-run", issuing(func(m *ledger.Memory, e *ledger.Effect, _ *bool) {
			if now, ok := one(context.Background(), m, e.ID); ok && now.RunID != e.RunID {
				e.State = ledger.Failed
			}
		})},
		"what is Completed is Unsure":     {"unsure-ended", func(m *ledger.Memory) ledger.Ledger { return listsChanged{m, unsureEver} }},
		"a Record that is Unsure":         {"unsure-ended", func(m *ledger.Memory) ledger.Ledger { return recordChanged{m, unsureEver} }},
		"a brief list is sure":            {"unsure-listed", func(m *ledger.Memory) ledger.Ledger { return briefChanged{m, sure} }},
		"an age that a list leaves out":   {"age", func(m *ledger.Memory) ledger.Ledger { return listsChanged{m, ageless} }},
		"a brief list leaves out the age": {"age", func(m *ledger.Memory) ledger.Ledger { return briefChanged{m, ageless} }},
		"an age that Issue leaves out":    {"age", func(m *ledger.Memory) ledger.Ledger { return issueChanged{m, ageless} }},
		"an age that Finish leaves out":   {"age", func(m *ledger.Memory) ledger.Ledger { return finishChanged{m, ageless} }},
		"an age that Record leaves out":   {"age", func(m *ledger.Memory) ledger.Ledger { return recordChanged{m, ageless} }},
		"an age by another clock":         {"age", func(m *ledger.Memory) ledger.Ledger { return listsChanged{m, ahead} }},
		"a negative age":                  {"age", func(m *ledger.Memory) ledger.Ledger { return listsChanged{m, behind} }},
		"an age since the first attempt":  {"age-again", func(m *ledger.Memory) ledger.Ledger { return &firstAge{Ledger: m} }},
		"an age since the state":          {"age-stays", func(m *ledger.Memory) ledger.Ledger { return listsChanged{m, stateAge} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, func() ledger.Ledger { return c.broken(new(ledger.Memory)) })
		})
	}
}

type (
	// forgetsOpen keeps the fence in a ledger of its own, which has no effects.
	forgetsOpen struct {
		ledger.Ledger
		m *ledger.Memory
	}
	adoptsAny    struct{ ledger.Ledger }
	adoptsKnown  struct{ ledger.Ledger }
	issuesAny    struct{ ledger.Ledger }
	issuesOnly   struct{ ledger.Ledger }
	neverRepeats struct{ ledger.Ledger }
	takesAny     struct{ ledger.Ledger }
	anyAttempt   struct{ ledger.Ledger }
	localTimes   struct{ ledger.Ledger }
	lastOnly     struct{ ledger.Ledger }
	readsFirst   struct{ ledger.Ledger }
	alwaysSure   struct{ ledger.Ledger }
	namesNobody  struct{ ledger.Ledger }
	issuedOnly   struct{ ledger.Ledger }
	answeredEver struct{ ledger.Ledger }
	// finishedWithin selects what was finished in the time.
	finishedWithin struct{ ledger.Ledger }
	answersAll     struct{ ledger.Ledger }
	ignoresCtx     struct{ ledger.Ledger }
)

func (l forgetsOpen) Adopt(ctx context.Context, _ string, f lock.Fence) error {
	return l.m.Adopt(ctx, "another run", f)
}

func (l adoptsAny) Adopt(ctx context.Context, run string, f lock.Fence) error {
	_ = l.Ledger.Adopt(ctx, run, f)
	return nil
}

func (l adoptsKnown) Adopt(ctx context.Context, run string, f lock.Fence) error {
	for _, err := range l.Effects(ctx, ledger.Query{RunID: run}) {
		if err != nil {
			return err
		}
		return l.Ledger.Adopt(ctx, run, f)
	}
	return nil
}

// An issues ledger changes an effect before it is issued, or whether it is issued again.
type issues struct {
	*ledger.Memory
	change func(m *ledger.Memory, e *ledger.Effect, again *bool)
}

func (l issues) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	l.change(l.Memory, &e, &again)
	return l.Memory.Issue(ctx, e, again)
}

func issuing(change func(m *ledger.Memory, e *ledger.Effect, again *bool)) func(*ledger.Memory) ledger.Ledger {
	return func(m *ledger.Memory) ledger.Ledger { return issues{m, change} }
}

// one returns the effect with an id.
func one(ctx context.Context, l ledger.Ledger, id string) (ledger.Effect, bool) {
	for e, err := range l.Effects(ctx, ledger.Query{ID: id}) {
		return e, err == nil
	}
	return ledger.Effect{}, false
}

func (l issuesAny) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	now, issued, err := l.Ledger.Issue(ctx, e, again)
	if errors.Is(err, lock.ErrFenced) {
		return now, true, nil
	}
	return now, issued, err
}

func (l issuesOnly) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	if now, ok := one(ctx, l, e.ID); ok && now.State == ledger.Issued {
		return now, true, nil
	}
	return l.Ledger.Issue(ctx, e, again)
}

func (l neverRepeats) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	if now, ok := one(ctx, l, e.ID); ok && now.Fence == e.Fence && !again {
		return now, false, nil
	}
	return l.Ledger.Issue(ctx, e, again)
}

func (l takesAny) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	if now, ok := one(ctx, l, e.ID); ok && now.State == ledger.Issued && again {
		return now, true, nil
	}
	return l.Ledger.Issue(ctx, e, again)
}

// keepsResult takes the result of an effect that is to be issued.
type keepsResult struct{ ledger.Ledger }

func (l keepsResult) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	now, issued, err := l.Ledger.Issue(ctx, e, again)
	now.Result = e.Result
	return now, issued, err
}

// completedFirst looks for the effect before it looks at the fence.
type completedFirst struct{ ledger.Ledger }

func (l completedFirst) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	if now, ok := one(ctx, l, e.ID); ok && now.State == ledger.Completed {
		return now, false, nil
	}
	return l.Ledger.Issue(ctx, e, again)
}

func (l completedFirst) Record(ctx context.Context, e ledger.Effect) (ledger.Effect, error) {
	if now, ok := one(ctx, l, e.ID); ok && now.State == ledger.Completed {
		return now, nil
	}
	return l.Ledger.Record(ctx, e)
}

// recordsBlindly tells each caller of its own result.
type recordsBlindly struct{ ledger.Ledger }

func (l recordsBlindly) Record(ctx context.Context, e ledger.Effect) (ledger.Effect, error) {
	now, known := one(ctx, l, e.ID)
	if known {
		return now, nil
	}
	for range 100 {
		runtime.Gosched()
	}
	now, err := l.Ledger.Record(ctx, e)
	now.Result = e.Result
	return now, err
}

func (l localTimes) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	local := time.FixedZone("", 3600)
	return changed(l.Ledger.Effects(ctx, q), func(e *ledger.Effect) { e.IssuedAt = e.IssuedAt.In(local) })
}

// A lastResult gives back the result that came last.
type lastResult struct {
	ledger.Ledger
	last json.RawMessage
}

func (l *lastResult) Finish(ctx context.Context, id string, n int, o ledger.Outcome) (ledger.Effect, error) {
	now, err := l.Ledger.Finish(ctx, id, n, o)
	if o.State == ledger.Completed {
		l.last = o.Result
	}
	now.Result = l.last
	return now, err
}

func (l anyAttempt) Finish(ctx context.Context, id string, n int, o ledger.Outcome) (ledger.Effect, error) {
	if e, ok := one(ctx, l, id); ok {
		n = e.Attempts
	}
	return l.Ledger.Finish(ctx, id, n, o)
}

func (l lastOnly) Finish(ctx context.Context, id string, n int, o ledger.Outcome) (ledger.Effect, error) {
	if e, ok := one(ctx, l, id); ok && e.Attempts != n {
		return e, nil
	}
	return l.Ledger.Finish(ctx, id, n, o)
}

func (l readsFirst) Finish(ctx context.Context, id string, n int, o ledger.Outcome) (ledger.Effect, error) {
	e, ok := one(ctx, l, id)
	switch {
	case !ok || o.By == "":
		return l.Ledger.Finish(ctx, id, n, o)
	case !e.State.Open():
		return e, ledger.ErrAnswered
	}
	for range 100 {
		runtime.Gosched()
	}
	if now, err := l.Ledger.Finish(ctx, id, n, o); err == nil {
		return now, nil
	}
	o.By = ""
	return l.Ledger.Finish(ctx, id, n, o)
}

func (l alwaysSure) Finish(ctx context.Context, id string, n int, o ledger.Outcome) (ledger.Effect, error) {
	o.Sure = true
	return l.Ledger.Finish(ctx, id, n, o)
}

func (l namesNobody) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return changed(l.Ledger.Effects(ctx, q), func(e *ledger.Effect) { e.AnsweredBy = "" })
}

// changed yields effects after a change.
func changed(all iter.Seq2[ledger.Effect, error], change func(*ledger.Effect)) iter.Seq2[ledger.Effect, error] {
	return func(yield func(ledger.Effect, error) bool) {
		for e, err := range all {
			if change(&e); !yield(e, err) {
				return
			}
		}
	}
}

// A recordsLast gives back the result that came last.
type recordsLast struct{ ledger.Ledger }

func (l *recordsLast) Record(ctx context.Context, e ledger.Effect) (ledger.Effect, error) {
	now, err := l.Ledger.Record(ctx, e)
	now.Result = e.Result
	return now, err
}

func (l answeredEver) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	if q.AnsweredWithin > 0 {
		q.AnsweredWithin = 100 * 24 * time.Hour
	}
	return l.Ledger.Effects(ctx, q)
}

func (l finishedWithin) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	within := q.AnsweredWithin
	q.AnsweredWithin = 0
	return func(yield func(ledger.Effect, error) bool) {
		for e, err := range l.Ledger.Effects(ctx, q) {
			if (within == 0 || time.Since(e.FinishedAt) < within) && !yield(e, err) {
				return
			}
		}
	}
}

func (l answersAll) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	q.AnsweredWithin = 0
	return l.Ledger.Effects(ctx, q)
}

func (l issuedOnly) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return func(yield func(ledger.Effect, error) bool) {
		for e, err := range l.Ledger.Effects(ctx, q) {
			if q.Open && e.State == ledger.Unknown {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// quietQueries does not say that it refuses a query.
type quietQueries struct{ ledger.Ledger }

func (l quietQueries) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return func(yield func(ledger.Effect, error) bool) {
		for e, err := range l.Ledger.Effects(ctx, q) {
			if errors.Is(err, ledger.ErrInvalid) || !yield(e, err) {
				return
			}
		}
	}
}

// laterAttempts takes the outcome of an attempt after the last one.
type laterAttempts struct{ ledger.Ledger }

func (l laterAttempts) Finish(ctx context.Context, id string, n int, o ledger.Outcome) (ledger.Effect, error) {
	if e, ok := one(ctx, l, id); ok {
		n = min(n, e.Attempts)
	}
	return l.Ledger.Finish(ctx, id, n, o)
}

// prunesKeys forgets effects with a Key as it forgets others.
type prunesKeys struct {
	ledger.Ledger
	gone []string
}

func (l *prunesKeys) Prune(ctx context.Context, before time.Time) (int, error) {
	n, err := l.Ledger.Prune(ctx, before)
	for e, failed := range l.Ledger.Effects(ctx, ledger.Query{}) {
		if failed == nil && e.Key != "" && !e.State.Open() && e.FinishedAt.Before(before) {
			l.gone = append(l.gone, e.ID)
			n++
		}
	}
	return n, err
}

func (l *prunesKeys) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return func(yield func(ledger.Effect, error) bool) {
		for e, err := range l.Ledger.Effects(ctx, q) {
			if !slices.Contains(l.gone, e.ID) && !yield(e, err) {
				return
			}
		}
	}
}

// keepsSlices gives back the very arguments that it was given.
type keepsSlices struct {
	ledger.Ledger
	args json.RawMessage
}

func (l *keepsSlices) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	l.args = e.Args
	return l.Ledger.Issue(ctx, e, again)
}

func (l *keepsSlices) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return changed(l.Ledger.Effects(ctx, q), func(e *ledger.Effect) { e.Args = l.args })
}

func (l ignoresCtx) Prune(ctx context.Context, before time.Time) (int, error) {
	return l.Ledger.Prune(context.WithoutCancel(ctx), before)
}

// These change the effects that one method returns.
type (
	listsChanged struct {
		ledger.Ledger
		change func(*ledger.Effect)
	}
	briefChanged  listsChanged
	issueChanged  listsChanged
	finishChanged listsChanged
	recordChanged listsChanged
)

func (l listsChanged) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return changed(l.Ledger.Effects(ctx, q), l.change)
}

func (l briefChanged) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	if !q.Brief {
		return l.Ledger.Effects(ctx, q)
	}
	return changed(l.Ledger.Effects(ctx, q), l.change)
}

func (l issueChanged) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	now, issued, err := l.Ledger.Issue(ctx, e, again)
	l.change(&now)
	return now, issued, err
}

func (l finishChanged) Finish(ctx context.Context, id string, n int, o ledger.Outcome) (ledger.Effect, error) {
	now, err := l.Ledger.Finish(ctx, id, n, o)
	l.change(&now)
	return now, err
}

func (l recordChanged) Record(ctx context.Context, e ledger.Effect) (ledger.Effect, error) {
	now, err := l.Ledger.Record(ctx, e)
	l.change(&now)
	return now, err
}

func ageless(e *ledger.Effect) { e.Age = 0 }

func ahead(e *ledger.Effect) { e.Age += time.Hour }

func behind(e *ledger.Effect) { e.Age -= time.Hour }

func stateAge(e *ledger.Effect) {
	if !e.FinishedAt.IsZero() {
		e.Age = time.Since(e.FinishedAt)
	}
}

// A firstAge counts the age from the first attempt.
type firstAge struct {
	ledger.Ledger
	issued time.Time
}

func (l *firstAge) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	now, issued, err := l.Ledger.Issue(ctx, e, again)
	if l.issued.IsZero() {
		l.issued = now.IssuedAt
	}
	return now, issued, err
}

func (l *firstAge) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return changed(l.Ledger.Effects(ctx, q), func(e *ledger.Effect) { e.Age = time.Since(l.issued) })
}

func sure(e *ledger.Effect) { e.Unsure = false }

func sureUnknown(e *ledger.Effect) { e.Unsure = e.Unsure && e.State != ledger.Unknown }

func unsureAgain(e *ledger.Effect) { e.Unsure = e.Attempts > 1 }

func unsureEver(e *ledger.Effect) { e.Unsure = e.Unsure || e.State == ledger.Completed }

func wordless(e *ledger.Effect) { e.Error = "" }

type (
	failsAnyway struct{ ledger.Ledger }
	answersLast struct{ ledger.Ledger }
)

// failsAnyway takes the failure of the last attempt for that of all, as a person may.
func (l failsAnyway) Finish(ctx context.Context, id string, n int, o ledger.Outcome) (ledger.Effect, error) {
	e, ok := one(ctx, l, id)
	if ok && o.State == ledger.Failed && o.By == "" && n == e.Attempts && e.State.Open() {
		o.By, o.Sure = "nobody", true
	}
	return l.Ledger.Finish(ctx, id, n, o)
}

// answersLast takes the answer of a person for that of the last attempt.
func (l answersLast) Finish(ctx context.Context, id string, n int, o ledger.Outcome) (ledger.Effect, error) {
	if o.State == ledger.Failed {
		o.By = ""
	}
	return l.Ledger.Finish(ctx, id, n, o)
}

// A heardTwice hears in a repeat what the first call did not say.
type heardTwice struct {
	ledger.Ledger
	heard bool
}

func (l *heardTwice) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	now, issued, err := l.Ledger.Issue(ctx, e, again)
	l.heard = l.heard || e.State == ledger.Failed
	now.Unsure = now.Unsure && !l.heard
	return now, issued, err
}
