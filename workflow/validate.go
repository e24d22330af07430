package workflow

import (
	"cmp"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/valid"
)

// The bounds of what a store takes.
const (
	// MaxValue is how many bytes an input, an output or a payload may have, as the shortest JSON.
	MaxValue = 1 << 20

	// MaxSteps is how many rows the journal of a run may have.
	MaxSteps = 10_000

	// MaxDelay bounds delays, sleeps and timeouts.
	MaxDelay = 366 * 24 * time.Hour

	// MaxError is how many bytes an error has that is kept. What is longer is cut.
	MaxError = 16 << 10

	// MaxStepName is how many bytes the name of a step may have, with the names of its branches.
	MaxStepName = 1024

	// DefaultRetentionDays is for how many days a run is kept after its end.
	DefaultRetentionDays = 30

	// MaxBatch is how many runs, messages or entries one call takes.
	MaxBatch = 10_000

	maxVersion = 1 << 30
)

var (
	workflowName = regexp.MustCompile(`^[a-z0-9_-]{1,48}$`)
	stepName     = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,128}(/[a-zA-Z0-9._-]{1,128})*$`)
)

// The functions and methods below are for authors of a store and of an engine. Each refuses, with ErrInvalid, what no
// store takes.

// ValidateName checks the name of a workflow: 1 to 48 of a-z, 0-9, '_' and '-'.
func ValidateName(name string) error {
	if !workflowName.MatchString(name) {
		return fmt.Errorf("%w: workflow %.60q: a name is 1 to 48 of a-z, 0-9, '_' and '-'", ErrInvalid, name)
	}
	return nil
}

// ValidateStepName checks the name of a step, with those of its branches before it: each is 1 to 128 of letters,
// digits, '.', '_' and '-'.
func ValidateStepName(name string) error {
	if len(name) > MaxStepName || !stepName.MatchString(name) {
		return fmt.Errorf("%w: step %.140q: a name is 1 to 128 of letters, digits, '.', '_' and '-'", ErrInvalid, name)
	}
	return nil
}

// ValidateStatuses checks the statuses of Counts.
func ValidateStatuses(all []Status) error {
	for _, s := range all {
		if !s.Known() {
			return fmt.Errorf("%w: status %.60q is none of running, completed, failed and cancelled", ErrInvalid, s)
		}
	}
	return nil
}

// ValidateRun checks the id of a run.
func ValidateRun(id string) error { return valid.ID("run", id) }

// ValidateEvent checks the name of an event. It may be that of a step.
func ValidateEvent(event string) error {
	if event == AnyEvent {
		return fmt.Errorf("%w: event %q", ErrInvalid, event)
	}
	return valid.ID("event", event)
}

// Validate checks a run to be started.
func (n *NewRun) Validate() error {
	err := cmp.Or(ValidateRun(n.ID), ValidateName(n.Workflow), valid.Document("input", n.Input, MaxValue),
		valid.Optional("key", n.Key), valid.Optional("group", n.Group), valid.Optional("owner", n.Owner),
		valid.Optional("parent", n.Parent))
	switch {
	case err != nil:
		return err
	case n.Version < 0 || n.Version > maxVersion:
		return fmt.Errorf("%w: version %d", ErrInvalid, n.Version)
	case n.RetentionDays < 0:
		return fmt.Errorf("%w: retention of %d days", ErrInvalid, n.RetentionDays)
	case n.Delay < 0 || n.Delay > MaxDelay:
		return fmt.Errorf("%w: delay of %v", ErrInvalid, n.Delay)
	case n.Debounce && (n.Key == "" || n.Parent != "" || n.From != ""):
		return fmt.Errorf("%w: a debounced start without a key, or of a child or a fork", ErrInvalid)
	case n.From != "" && (n.Parent != "" || n.Owner != ""):
		return fmt.Errorf("%w: From, and a parent or an owner", ErrInvalid)
	case n.From != "" || n.FromStep != "":
		return cmp.Or(ValidateRun(n.From), ValidateStepName(n.FromStep))
	case n.Owner == "":
		return nil
	case n.Delay != 0 || n.Debounce:
		return fmt.Errorf("%w: an owner, and a delay or a debounced start", ErrInvalid)
	}
	return valid.Fence(n.Fence)
}

// ValidateStart checks the arguments of Start.
func ValidateStart(runs []NewRun) error {
	ids, keys := make(map[string]bool, len(runs)), make(map[[2]string]bool)
	others := make(map[string]bool)
	err := batch(runs, func(n *NewRun) error {
		if err := n.Validate(); err != nil {
			return err
		}
		key := [2]string{n.Workflow, n.Key}
		if ids[n.ID] || n.Key != "" && keys[key] {
			return fmt.Errorf("%w: run %q or its key twice", ErrInvalid, n.ID)
		}
		ids[n.ID], keys[key], others[n.Parent], others[n.From] = true, true, true, true
		return nil
	})
	for other := range others {
		if err == nil && ids[other] {
			err = fmt.Errorf("%w: run %q, and a child or a fork of it in one call", ErrInvalid, other)
		}
	}
	return err
}

// Validate checks a message.
func (m *Message) Validate() error {
	if err := ValidateRun(m.Run); err != nil {
		return err
	}
	switch m.Action {
	case Cancel, Pause, Resume:
		return nil
	case Rewind:
		return ValidateStepName(m.Event)
	case Signal:
		return cmp.Or(valid.ID("signal", m.ID), ValidateEvent(m.Event), valid.Document("payload", m.Payload, MaxValue))
	}
	return fmt.Errorf("%w: action %q", ErrInvalid, m.Action)
}

// ValidateSend checks the arguments of Send.
func ValidateSend(messages []Message) error { return batch(messages, (*Message).Validate) }

// Validate checks a query.
func (q *Query) Validate() error {
	err := cmp.Or(valid.Optional("run", q.ID), valid.Optional("parent", q.Parent),
		valid.Document("input", q.Input, MaxValue), valid.Document("payload", q.Payload, MaxValue),
		valid.Optional("key", q.KeyPrefix))
	switch {
	case err != nil:
		return err
	case q.KeyPrefix != "" && (q.Workflow == "" || q.ID != "" || q.After != nil || q.Event != ""):
		return fmt.Errorf("%w: a query with KeyPrefix has a Workflow, and no ID, After or Event", ErrInvalid)
	case q.Workflow != "" && !workflowName.MatchString(q.Workflow):
		return ValidateName(q.Workflow)
	case q.Status != "" && !q.Status.Known():
		return ValidateStatuses([]Status{q.Status})
	case q.Limit < 0:
		return fmt.Errorf("%w: limit %d", ErrInvalid, q.Limit)
	case outlandish(q.Since) || outlandish(q.Until):
		return fmt.Errorf("%w: from %v to %v", ErrInvalid, q.Since, q.Until)
	case q.Event != "" && q.After != nil:
		return fmt.Errorf("%w: a query with Event and After", ErrInvalid)
	case q.Event != "":
		return ValidateEvent(q.Event)
	case q.After != nil && outlandish(q.After.Started):
		return fmt.Errorf("%w: after a run of %v", ErrInvalid, q.After.Started)
	case q.After != nil:
		return ValidateRun(q.After.ID)
	}
	return nil
}

// KeysEnd returns the least text that is greater than every key with the KeyPrefix of q, and "" if there is none. It is
// for authors of a store.
func (q *Query) KeysEnd() string {
	end := []rune(q.KeyPrefix)
	for len(end) > 0 {
		last := &end[len(end)-1]
		if *last++; *last == 0xD800 { // surrogates are no text
			*last = 0xE000
		}
		if *last <= utf8.MaxRune {
			return string(end)
		}
		end = end[:len(end)-1]
	}
	return ""
}

// outlandish reports whether not every store can keep a time.
func outlandish(t time.Time) bool { return t.UTC().Year() < 1 || t.UTC().Year() > 9999 }

// Validate checks a request.
func (r *ClaimRequest) Validate() error {
	err := cmp.Or(valid.ID("process", r.Process), valid.ID("nonce", r.Nonce), valid.Optional("from", r.From),
		valid.Optional("again", r.Again))
	modes := 0
	for _, set := range []bool{r.From != "", r.Again != "", r.Lease != 0} {
		if set {
			modes++
		}
	}
	switch {
	case err != nil:
		return err
	case modes > 1:
		return fmt.Errorf("%w: more than one of From, Again and Lease", ErrInvalid)
	case r.Limit < 0 || r.Limit > MaxBatch:
		return fmt.Errorf("%w: limit %d", ErrInvalid, r.Limit)
	case r.Lease < 0 || r.Lease > MaxDelay:
		return fmt.Errorf("%w: lease of %v", ErrInvalid, r.Lease)
	case modes > 0 && r.Again == "" && r.MostCrashes < 1:
		return fmt.Errorf("%w: %d crashes", ErrInvalid, r.MostCrashes)
	}
	for _, d := range r.Definitions {
		if err := ValidateName(d.Workflow); err != nil {
			return err
		}
		if d.Version < 1 || d.Version > maxVersion {
			return fmt.Errorf("%w: version %d", ErrInvalid, d.Version)
		}
	}
	for name, l := range r.Limits {
		if err := cmp.Or(ValidateName(name), l.Validate()); err != nil {
			return err
		}
	}
	return nil
}

// Validate checks an entry.
func (e *Entry) Validate() error {
	if err := cmp.Or(ValidateRun(e.Run), valid.Document("match", e.Match, MaxValue),
		valid.Document("output", e.Output, MaxValue), valid.Text("error", e.Error, MaxError)); err != nil {
		return err
	}
	if e.Next != Record {
		if err := valid.Fence(e.Fence); err != nil {
			return err
		}
	}
	names := make(map[string]bool, len(e.Steps))
	for i := range e.Steps {
		if err := e.Steps[i].validate(); err != nil {
			return err
		}
		if names[e.Steps[i].Name] {
			return fmt.Errorf("%w: step %q twice", ErrInvalid, e.Steps[i].Name)
		}
		names[e.Steps[i].Name] = true
	}
	return e.validateNext()
}

func (e *Entry) validateNext() error {
	switch {
	case e.Next < Stay || e.Next > Record:
		return fmt.Errorf("%w: next %d", ErrInvalid, e.Next)
	case e.Mail < -1:
		return fmt.Errorf("%w: mail %d", ErrInvalid, e.Mail)
	case e.After < 0 || e.After > MaxDelay, outlandish(e.Due):
		return fmt.Errorf("%w: due after %v, at %v", ErrInvalid, e.After, e.Due)
	case e.Next == Park && e.Event != "" && e.Event != AnyEvent:
		return ValidateEvent(e.Event)
	case e.Next == End && !e.Status.Over():
		return fmt.Errorf("%w: end with status %q", ErrInvalid, e.Status)
	case e.Next == Stop && e.Held != Crashed && e.Held != Drifted:
		return fmt.Errorf("%w: stop with hold %q", ErrInvalid, e.Held)
	}
	return nil
}

func (s *Step) validate() error {
	err := cmp.Or(ValidateStepName(s.Name), valid.Document("output", s.Output, MaxValue),
		valid.Text("error", s.Error, MaxError), valid.Optional("signal", s.Signal))
	switch {
	case err != nil:
		return err
	case s.Index < 0 || s.Index >= MaxSteps:
		return fmt.Errorf("%w: index %d", ErrInvalid, s.Index)
	case s.Attempts < 0 || s.Attempts > maxVersion:
		return fmt.Errorf("%w: %d attempts", ErrInvalid, s.Attempts)
	case s.Took < 0 || s.Took > MaxDelay, s.For < 0 || s.For > MaxDelay, outlandish(s.Until):
		return fmt.Errorf("%w: step %q took %v, for %v, until %v", ErrInvalid, s.Name, s.Took, s.For, s.Until)
	}
	switch s.Kind {
	case KindStep, KindSleep, KindWait, KindChild, KindPatch:
	default:
		return fmt.Errorf("%w: kind %q", ErrInvalid, s.Kind)
	}
	switch s.Outcome {
	case Done, TimedOut, Broken, Retrying, Open, Late:
		return nil
	}
	return fmt.Errorf("%w: outcome %q", ErrInvalid, s.Outcome)
}

// ValidateWrite checks the arguments of Write.
func ValidateWrite(entries []Entry) error {
	runs := make(map[string]bool, len(entries))
	return batch(entries, func(e *Entry) error {
		if runs[e.Run] && e.Next != Record {
			return fmt.Errorf("%w: two entries of run %q", ErrInvalid, e.Run)
		}
		runs[e.Run] = true
		return e.Validate()
	})
}

// batch checks all elements of the argument of a call.
func batch[T any](all []T, check func(*T) error) error {
	if len(all) > MaxBatch {
		return fmt.Errorf("%w: %d at once, and %d are the most", ErrInvalid, len(all), MaxBatch)
	}
	for i := range all {
		if err := check(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// ValidateValue checks an input, an output or a payload. nil is null.
func ValidateValue(what string, doc []byte) error { return valid.Document(what, doc, MaxValue) }
