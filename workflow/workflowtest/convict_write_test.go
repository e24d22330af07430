package workflowtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

type (
	entry = workflow.Entry
	row   = workflow.Step
	run   = workflow.Run
)

func TestSuiteConvictsWrite(t *testing.T) {
	convict(t, map[string]mutant{
		"attempts are lost":             {"write", eachRow(func(s *row) { s.Attempts = 0 })},
		"a step takes no time":          {"write", eachRow(func(s *row) { s.Took = 0 })},
		"the writer's clock":            {"write-times", writersClock},
		"who gave it back writes":       {"write-given-back", lateCounts(workflow.Stay)},
		"a late completion counts":      {"record", eachStep(func(s *row) { s.Outcome = lateIsDone(s.Outcome) })},
		"what is over takes a row":      {"write-over", eachVerdict(forgive(workflow.ErrOver))},
		"what is not there takes a row": {"write-unknown", eachVerdict(forgive(workflow.ErrNotFound))},
		"mail is not compared":          {"write-mail", eachEntry(func(e *entry) { e.Mail = -1 })},
		"mail is compared for a wait":   {"write-mail", eachEntry(func(e *entry) { onlyForWaits(e) })},
		"newer mail only":               {"write-mail", newerMail},
		"a bad entry stops the rest":    {"write-group", stopsAtBad},
		"at most 100 entries":           {"write-many", func(b *broken) { b.write = atMost(b.write) }},
		"at most 100 rows":              {"write-many", eachEntry(func(e *entry) { e.Steps = e.Steps[:min(len(e.Steps), 100)] })},
		"a repeat is refused":           {"write-again", refusesRepeat},
		"a row that is over changes":    {"write-stays", overwrites(workflow.Done)},
		"an entry with a known row":     {"write-stays", refusesKnownRow},
	})
}

func TestSuiteConvictsNext(t *testing.T) {
	convict(t, map[string]mutant{
		"After is ignored":             {"park", eachEntry(func(e *entry) { afterDue(e) })},
		"a sleep is cut short":         {"park", eachEntry(func(e *entry) { e.After /= 2 })},
		"a park keeps the owner":       {"park", eachEntry(func(e *entry) { staysFor(e, "") })},
		"what has passed is not due":   {"park-now", eachEntry(func(e *entry) { notNow(e) })},
		"a wait has a timeout":         {"park-wait", eachEntry(func(e *entry) { timesOut(e) })},
		"a match outlives its wait":    {"park-deadline", keepsMatch},
		"an output is lost":            {"end", eachEntry(func(e *entry) { e.Output = nil })},
		"an end has no output":         {"end", eachRun(func(r *run) { r.Output = unlessNull(r.Output) })},
		"an end has no time":           {"end", eachRun(func(r *run) { r.Completed = r.Started.Add(-time.Hour) })},
		"an error outlives its hold":   {"stop", keepsError},
		"a stop ends the run":          {"stop", eachEntry(func(e *entry) { stopEnds(e) })},
		"Record needs a fence":         {"record", recordNeedsFence},
		"Record replaces":              {"record", recordReplaces},
		"Record of what runs only":     {"record", eachVerdict(func(e *entry, err *error) { recordOfRunning(e, err) })},
		"a late row stays":             {"record-counts-not", lateStays},
		"null is no output":            {"rows-nulls", eachStep(func(s *row) { s.Output = unlessNull(s.Output) })},
		"no output is null":            {"rows-nulls", eachStep(func(s *row) { s.Output = orNull(s.Output) })},
		"a retried row stays":          {"rows-replaced", triedStays},
		"Started is that of the end":   {"rows-replaced", eachStep(func(s *row) { s.Started = s.Completed })},
		"a timeout is replaced":        {"rows-replaced", overwrites(workflow.TimedOut)},
		"a deadline begins anew":       {"rows-due", sleepsAnew},
		"a repeat moves a deadline":    {"rows-repeated", sleepsAnew},
		"For is ignored":               {"rows-until", eachRow(func(s *row) { s.For = 0 })},
		"a signal is never taken":      {"rows-signal", eachRow(func(s *row) { s.Signal = "" })},
		"a row that stays takes":       {"rows-signal", takesAnyway},
		"a taken signal comes again":   {"rows-again", forgetsTaken},
		"rows are written one by one":  {"rows-atomic", rowByRow},
		"null, false and 0 are no end": {"rows-nulls", eachStep(func(s *row) { falseIsOpen(s) })},
	})
}

func forgive(verdict error) func(*entry, *error) {
	return func(_ *entry, err *error) {
		if errors.Is(*err, verdict) {
			*err = nil
		}
	}
}

func writersClock(b *broken) {
	said := make(map[string]time.Time)
	eachRow(func(s *row) { said[s.Name] = s.Started })(b)
	eachStep(func(s *row) { s.Started = said[s.Name] })(b)
}

// lateCounts adds the rows of an entry that is fenced off.
func lateCounts(next workflow.Next) fault {
	return judges(func(b *broken, e entry, err error) error {
		if errors.Is(err, lock.ErrFenced) && e.Next == next {
			e.Next = workflow.Record
			_, err = b.Memory.Write(context.Background(), []entry{e})
		}
		return err
	})
}

// judges changes the verdict of each entry, with the store at hand.
func judges(change func(b *broken, e entry, err error) error) fault {
	return func(b *broken) {
		b.write = after(b.write, func(e *entry, err *error) { *err = change(b, *e, *err) })
	}
}

func lateIsDone(o workflow.Outcome) workflow.Outcome {
	if o == workflow.Late {
		return workflow.Done
	}
	return o
}

func onlyForWaits(e *entry) {
	if e.Event == "" {
		e.Mail = -1
	}
}

// newerMail refuses an entry only if it has seen less mail than has come.
func newerMail(b *broken) {
	mail := make(map[string]int64)
	eachReceipt(func(m *workflow.Message, r *workflow.Receipt) {
		if *r == workflow.Kept {
			mail[m.Run]++
		}
	})(b)
	b.write = before(b.write, func(e *entry) {
		if e.Mail > mail[e.Run] {
			e.Mail = mail[e.Run]
		}
	})
}

func stopsAtBad(b *broken) {
	write := b.write
	b.write = func(ctx context.Context, entries []entry) ([]error, error) {
		verdicts := make([]error, len(entries))
		for i := range entries {
			one, err := write(ctx, entries[i:i+1])
			if err != nil {
				return nil, err
			}
			if verdicts[i] = one[0]; one[0] != nil {
				for rest := range verdicts[i:] {
					verdicts[i+rest] = one[0]
				}
				break
			}
		}
		return verdicts, nil
	}
}

func refusesRepeat(b *broken) {
	b.write = func(ctx context.Context, entries []entry) ([]error, error) {
		over := make([]bool, len(entries))
		for i, e := range entries {
			over[i] = b.run(e.Run).Status.Over() && e.Next == workflow.End
		}
		verdicts, err := b.Memory.Write(ctx, entries)
		for i := range verdicts {
			if over[i] {
				verdicts[i] = workflow.ErrOver
			}
		}
		return verdicts, err
	}
}

// overwrites keeps of rows with an outcome the last that was written.
func overwrites(outcome workflow.Outcome) fault {
	return func(b *broken) {
		first, last := make(map[string]bool), make(map[string]row)
		eachRow(func(s *row) {
			first[s.Name] = first[s.Name] || s.Outcome == outcome
			last[s.Name] = *s
		})(b)
		eachStep(func(s *row) {
			if l := last[s.Name]; first[s.Name] && s.Outcome == outcome {
				s.Output, s.Error, s.Attempts = l.Output, l.Error, l.Attempts
			}
		})(b)
	}
}

func refusesKnownRow(b *broken) {
	seen := make(map[string]string)
	eachVerdict(func(e *entry, err *error) {
		for _, s := range e.Steps {
			if old, known := seen[e.Run+s.Name]; known && old != string(s.Output) {
				*err = errors.New("duplicate key")
			}
			seen[e.Run+s.Name] = string(s.Output)
		}
	})(b)
}

func afterDue(e *entry) {
	if !e.Due.IsZero() {
		e.After = 0
	}
}

func staysFor(e *entry, event string) {
	if e.Next == workflow.Park && e.Event == event {
		e.Next = workflow.Stay
	}
}

func notNow(e *entry) {
	if e.After == 1 {
		e.After = time.Minute
	}
}

func timesOut(e *entry) {
	if e.Event != "" && e.After == 0 && e.Due.IsZero() {
		e.After = time.Hour
	}
}

func keepsMatch(b *broken) {
	var match json.RawMessage
	eachEntry(func(e *entry) {
		if e.Match == nil {
			e.Match = match
		}
		match = e.Match
	})(b)
}

func unlessNull(doc json.RawMessage) json.RawMessage {
	if string(doc) == "null" {
		return nil
	}
	return doc
}

func orNull(doc json.RawMessage) json.RawMessage {
	if doc == nil {
		return json.RawMessage("null")
	}
	return doc
}

func keepsError(b *broken) {
	errs := make(map[string]string)
	b.write = before(b.write, func(e *entry) { errs[e.Run] = e.Error })
	eachRun(func(r *run) { r.Error = errs[r.ID] })(b)
}

func stopEnds(e *entry) {
	if e.Next == workflow.Stop {
		e.Next, e.Status = workflow.End, workflow.Failed
	}
}

func recordNeedsFence(b *broken) {
	eachVerdict(func(e *entry, err *error) {
		if e.Next == workflow.Record && e.Fence == (lock.Fence{}) {
			*err = lock.ErrFenced
		}
	})(b)
}

func recordReplaces(b *broken) {
	late := make(map[string]bool)
	eachEntry(func(e *entry) {
		for _, s := range e.Steps {
			late[s.Name] = e.Next == workflow.Record
		}
	})(b)
	eachStep(func(s *row) {
		if late[s.Name] {
			s.Outcome = workflow.Late
		}
	})(b)
}

func recordOfRunning(e *entry, err *error) {
	if e.Next == workflow.Record && slices.ContainsFunc(e.Steps, func(s row) bool { return s.Name == "after" }) {
		*err = workflow.ErrOver
	}
}

func lateStays(b *broken) {
	late := make(map[string]json.RawMessage)
	eachEntry(func(e *entry) {
		for _, s := range e.Steps {
			if e.Next == workflow.Record {
				late[s.Name] = s.Output
			}
		}
	})(b)
	eachStep(func(s *row) {
		if doc := late[s.Name]; doc != nil {
			s.Output, s.Outcome = doc, workflow.Late
		}
	})(b)
}

// triedStays keeps of a row that is tried again the first try.
func triedStays(b *broken) {
	tried := make(map[string]bool)
	b.write = before(b.write, func(e *entry) {
		e.Steps = slices.DeleteFunc(slices.Clone(e.Steps), func(s row) bool {
			known := tried[s.Name]
			tried[s.Name] = known || s.Outcome == workflow.Retrying
			return known
		})
	})
}

// sleepsAnew moves the deadline of a sleep with each row of it.
func sleepsAnew(b *broken) {
	n := 0
	eachRow(func(*row) { n++ })(b)
	eachStep(func(s *row) {
		if n > 1 && !s.Until.IsZero() {
			s.Until = s.Until.Add(time.Duration(n) * time.Minute)
		}
	})(b)
}

// takesAnyway forgets the signal of a row, whether the row is written or not.
func takesAnyway(b *broken) {
	taken := make(map[string]bool)
	eachRow(func(s *row) { taken[s.Signal] = true })(b)
	journals(func(all []row) []row {
		return slices.DeleteFunc(all, func(s row) bool { return s.Kind == workflow.KindSignal && taken[s.Signal] })
	})(b)
}

func forgetsTaken(b *broken) {
	taken := make(map[string]bool)
	eachRow(func(s *row) { taken[s.Signal] = true })(b)
	eachMessage(func(m *workflow.Message) {
		if taken[m.ID] {
			m.ID += " again"
		}
	})(b)
}

// rowByRow compares mail with the last row only.
func rowByRow(b *broken) {
	write := b.write
	var mu sync.Mutex
	b.write = func(ctx context.Context, entries []entry) ([]error, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range entries {
			for i := 0; i < len(e.Steps)-1 && e.Next != workflow.Record; i++ {
				first := entry{Run: e.Run, Fence: e.Fence, Mail: -1, Steps: e.Steps[i : i+1]}
				if verdicts, err := write(ctx, []entry{first}); err != nil {
					return verdicts, err
				}
			}
		}
		return write(ctx, entries)
	}
}

func falseIsOpen(s *row) {
	switch string(s.Output) {
	case "false", "0", `""`:
		s.Outcome = workflow.Open
	}
}
