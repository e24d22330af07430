package snapshottest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// These stores lose parts, or show the wrong ones.
func TestSuiteConvictsParts(t *testing.T) {
	memory := func() *snapshot.Memory { return new(snapshot.Memory) }
	convict(t, map[string]conviction{
		"Runs returns parts": {"parts", listing(func(m *snapshot.Memory, _ snapshot.Query, r *snapshot.Run) {
			r.Parts = parts(context.Background(), m, *r)
		})},
		"Begin writes no parts":                     {"parts", func() store { return beginsBare{memory()} }},
		"a Save without Payload replaces the parts": {"parts-added", func() store { return replaces{memory()} }},
		"a Save without Payload empties it":         {"parts-added", func() store { return empties{memory()} }},
		"a part of the same name stays":             {"parts-added", func() store { return firstWins{memory()} }},
		"a Save with Payload leaves old parts":      {"parts-replaced", func() store { return merges{memory()} }},
		"a Save without Payload needs one":          {"parts-alone", func() store { return needsPayload{memory()} }},
		"parts outlive their run":                   {"parts-deleted", func() store { return newApart(bySession) }},
		"a run that ends must have a Payload":       {"parts-status", func() store { return endsWhole{memory()} }},
		"parts are added to an ended run":           {"parts-status", func() store { return partsFirst{newApart(byRun)} }},
		"parts of a stale Save are added":           {"parts-stale", func() store { return partsFirst{newApart(byRun)} }},
		"parts of a fenced Save are added":          {"parts-fenced", func() store { return partsFirst{newApart(byRun)} }},
		"a Begin that finds a run writes parts":     {"parts-met", func() store { return beginsParts{newApart(bySession)} }},
		"a parked run comes without parts":          {"parts-parked", func() store { return parksBare{memory()} }},
		"a part comes after the run is adopted":     {"parts-zombie", func() store { return newApart(byRun).slow() }},
		"a Save and its parts are two steps":        {"adopt-save-race", func() store { return newApart(byRun).slow() }},
		"Adopt reads the parts first":               {"adopt-save-race", func() store { return partsReadFirst{memory()} }},
		"a cancelled Save is cut in half":           {"cancelled-save", func() store { return cutsShort{newApart(byRun)} }},
		"a part has 64 KiB at most":                 {"parts-large", func() store { return smallParts{memory()} }},
		"a run has 20 parts at most":                {"parts-large", func() store { return fewParts{memory()} }},
		"names of parts ignore case":                {"parts-accepted", func() store { return lowerCase{memory()} }},
		"what is given back is too long":            {"largest", func() store { return spaced{memory(), asGiven} }},
		"a run must be short to end":                {"largest", func() store { return spaced{memory(), asStored} }},
		"keys of parts are joined":                  {"parts-separate", func() store { return newApart(joined) }},
		"parts are not checked":                     {"parts-refused", func() store { return uncheckedParts{memory()} }},
		"parts are kept as they come in":            {"parts-aliasing", func() store { return newApart(byRun) }},
	})
}

// These stores let a run wait too long, or not at all.
func TestSuiteConvictsPauses(t *testing.T) {
	memory := func() *snapshot.Memory { return new(snapshot.Memory) }
	convict(t, map[string]conviction{
		"Pause comes back as nothing":          {"pause", paused(nothing)},
		"NotBefore is believed":                {"pause-given", func() store { return believes{memory()} }},
		"a pause stays when none is asked for": {"pause-none", func() store { return keepsPause{memory()} }},
		"Pause comes back as it was":           {"pause-over", paused(asSaved)},
		"less than nothing is left":            {"pause-over", paused(untilDue)},
		"Adopt makes a run due":                {"pause-adopted", func() store { return adoptsDue{memory()} }},
		"a pause of a year is too long":        {"pause-bounds", func() store { return shortPauses{memory()} }},
	})
}

// These stores tell a wrong age.
func TestSuiteConvictsAges(t *testing.T) {
	convict(t, map[string]conviction{
		"no run has an age":                 {"age", aged(nothing)},
		"a Save makes a run young":          {"age", aged(sinceSaved)},
		"a session's first run counts":      {"age-anew", agedTogether},
		"the Age of a caller is given back": {"age-anew", func() store { return &agedByCaller{Memory: new(snapshot.Memory)} }},
	})
}

// paused computes how long a run still waits by left.
func paused(left func(snapshot.Run) time.Duration) func() store {
	return listing(func(_ *snapshot.Memory, _ snapshot.Query, r *snapshot.Run) { r.Pause = left(*r) })
}

// aged computes how old a run is by age.
func aged(age func(snapshot.Run) time.Duration) func() store {
	return listing(func(_ *snapshot.Memory, _ snapshot.Query, r *snapshot.Run) { r.Age = age(*r) })
}

// agedTogether counts from when the first run of a session began.
func agedTogether() store {
	var first sync.Map // of time.Time, by session
	return aged(func(r snapshot.Run) time.Duration {
		began, _ := first.LoadOrStore(r.Key, r.StartedAt)
		return time.Since(began.(time.Time))
	})()
}

func sinceSaved(r snapshot.Run) time.Duration { return time.Since(r.SavedAt) }

// agedByCaller adds the Age that a caller gave.
type agedByCaller struct {
	*snapshot.Memory
	given sync.Map // of time.Duration, by session
}

func (a *agedByCaller) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	a.given.Store(r.Key, r.Age)
	return a.Memory.Begin(ctx, r)
}

func (a *agedByCaller) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return listed{a.Memory, func(*snapshot.Query) {}, func(_ *snapshot.Memory, _ snapshot.Query, r *snapshot.Run) {
		given, _ := a.given.Load(r.Key)
		r.Age += given.(time.Duration)
	}}.Runs(ctx, q)
}

// parts returns the parts of a run in flight.
func parts(ctx context.Context, m *snapshot.Memory, r snapshot.Run) map[string]json.RawMessage {
	got, err := m.Adopt(ctx, r.Key, r.Fence, 0)
	if err != nil {
		return nil
	}
	return got.Parts
}

type beginsBare struct{ *snapshot.Memory }

func (b beginsBare) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	r.Parts = nil
	return b.Memory.Begin(ctx, r)
}

type replaces struct{ *snapshot.Memory }

func (s replaces) Save(ctx context.Context, r snapshot.Run) error {
	if in := find(ctx, s.Memory, r.Key); in != nil && len(r.Payload) == 0 {
		r.Payload = in.Payload
	}
	return s.Memory.Save(ctx, r)
}

type empties struct{ *snapshot.Memory }

func (s empties) Save(ctx context.Context, r snapshot.Run) error {
	if len(r.Payload) == 0 {
		added := r.Parts
		r.Payload, r.Parts = json.RawMessage(`null`), parts(ctx, s.Memory, r)
		if r.Parts == nil {
			r.Parts = make(map[string]json.RawMessage)
		}
		maps.Copy(r.Parts, added)
	}
	return s.Memory.Save(ctx, r)
}

type firstWins struct{ *snapshot.Memory }

func (s firstWins) Save(ctx context.Context, r snapshot.Run) error {
	old := parts(ctx, s.Memory, r)
	r.Parts = maps.Clone(r.Parts)
	if len(r.Payload) == 0 {
		maps.DeleteFunc(r.Parts, func(name string, _ json.RawMessage) bool { return old[name] != nil })
	}
	return s.Memory.Save(ctx, r)
}

type merges struct{ *snapshot.Memory }

func (s merges) Save(ctx context.Context, r snapshot.Run) error {
	all := parts(ctx, s.Memory, r)
	if all == nil {
		all = make(map[string]json.RawMessage)
	}
	maps.Copy(all, r.Parts)
	r.Parts = all
	return s.Memory.Save(ctx, r)
}

type needsPayload struct{ *snapshot.Memory }

func (s needsPayload) Save(ctx context.Context, r snapshot.Run) error {
	if len(r.Payload) == 0 {
		return errors.New("payload must not be null")
	}
	return s.Memory.Save(ctx, r)
}

type endsWhole struct{ *snapshot.Memory }

func (s endsWhole) Save(ctx context.Context, r snapshot.Run) error {
	if len(r.Payload) == 0 && r.Status == snapshot.Ended {
		r.Payload = json.RawMessage(`null`)
	}
	return s.Memory.Save(ctx, r)
}

// An apart keeps the parts elsewhere, and writes them in a separate step.
type apart struct {
	*snapshot.Memory
	key  func(k snapshot.Key, run, part string) string
	wait func()
	docs *sync.Map // key to json.RawMessage
	name *sync.Map // key to the name of the part
}

func newApart(key func(snapshot.Key, string, string) string) apart {
	return apart{new(snapshot.Memory), key, func() {}, new(sync.Map), new(sync.Map)}
}

func (a apart) slow() apart {
	a.wait = pause
	return a
}

func byRun(k snapshot.Key, run, part string) string {
	return strings.Join([]string{k.Orchestrator, k.Session, run, part}, "\x00")
}

func bySession(k snapshot.Key, _, part string) string { return byRun(k, "", part) }

func joined(k snapshot.Key, _, part string) string {
	return strings.Join([]string{k.Orchestrator, k.Session, part}, ":")
}

func (a apart) write(r snapshot.Run) {
	if len(r.Payload) > 0 {
		a.docs.Range(func(key, _ any) bool {
			name, _ := a.name.Load(key)
			if key == a.key(r.Key, r.ID, name.(string)) && r.Parts[name.(string)] == nil {
				a.docs.Delete(key)
			}
			return true
		})
	}
	for name, doc := range r.Parts {
		key := a.key(r.Key, r.ID, name)
		a.name.Store(key, name)
		a.docs.Store(key, doc)
	}
}

func (a apart) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	written := r
	r.Parts = nil
	found, err := a.Memory.Begin(ctx, r)
	if found == nil && err == nil {
		written.Payload = nil
		a.write(written)
	}
	return found, err
}

func (a apart) Save(ctx context.Context, r snapshot.Run) error {
	in := find(ctx, a.Memory, r.Key)
	written := r
	r.Parts = nil
	err := a.Memory.Save(ctx, r)
	if err == nil && in != nil && in.Seq < r.Seq {
		a.wait()
		a.write(written)
	}
	return err
}

func (a apart) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	r, err := a.Memory.Adopt(ctx, k, f, attempts)
	r.Parts = make(map[string]json.RawMessage)
	a.docs.Range(func(key, doc any) bool {
		name, _ := a.name.Load(key)
		if key == a.key(k, r.ID, name.(string)) {
			r.Parts[name.(string)] = doc.(json.RawMessage)
		}
		return true
	})
	return r, err
}

// partsFirst writes the parts before it looks whether the Save is allowed.
type partsFirst struct{ apart }

func (p partsFirst) Save(ctx context.Context, r snapshot.Run) error {
	p.write(r)
	return p.apart.Save(ctx, r)
}

// cutsShort writes the run, and the parts if there is time.
type cutsShort struct{ apart }

func (c cutsShort) Save(ctx context.Context, r snapshot.Run) error {
	saved := r
	saved.Parts = nil
	if err := c.Memory.Save(ctx, saved); err != nil {
		return err
	}
	pause()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.write(r)
	return nil
}

type beginsParts struct{ apart }

func (b beginsParts) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	written := r
	written.Payload = nil
	b.write(written)
	return b.apart.Begin(ctx, r)
}

type parksBare struct{ *snapshot.Memory }

func (p parksBare) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	r, err := p.Memory.Adopt(ctx, k, f, attempts)
	if err != nil {
		r.Parts = nil
	}
	return r, err
}

// partsReadFirst returns the parts that the run had when the adoption began.
type partsReadFirst struct{ *snapshot.Memory }

func (p partsReadFirst) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	in := find(ctx, p.Memory, k)
	if in == nil {
		return p.Memory.Adopt(ctx, k, f, attempts)
	}
	seen := parts(ctx, p.Memory, *in)
	pause()
	r, err := p.Memory.Adopt(ctx, k, f, attempts)
	r.Parts = seen
	return r, err
}

type smallParts struct{ *snapshot.Memory }

func (s smallParts) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	for _, doc := range r.Parts {
		if len(doc) > 64<<10 {
			return nil, snapshot.ErrInvalid
		}
	}
	return s.Memory.Begin(ctx, r)
}

type fewParts struct{ *snapshot.Memory }

func (f fewParts) Save(ctx context.Context, r snapshot.Run) error {
	if len(parts(ctx, f.Memory, r))+len(r.Parts) > 20 {
		return snapshot.ErrInvalid
	}
	return f.Memory.Save(ctx, r)
}

type lowerCase struct{ *snapshot.Memory }

func (l lowerCase) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	lower := make(map[string]json.RawMessage)
	for _, name := range slices.Sorted(maps.Keys(r.Parts)) {
		lower[strings.ToLower(name)] = r.Parts[name]
	}
	r.Parts = lower
	return l.Memory.Begin(ctx, r)
}

type uncheckedParts struct{ *snapshot.Memory }

func (u uncheckedParts) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	found, err := u.Memory.Begin(ctx, r)
	if errors.Is(err, snapshot.ErrInvalid) && r.Parts != nil {
		r.Parts = nil
		return u.Memory.Begin(ctx, r)
	}
	return found, err
}

func nothing(snapshot.Run) time.Duration   { return 0 }
func asSaved(r snapshot.Run) time.Duration { return max(0, r.NotBefore.Sub(r.SavedAt)) }
func untilDue(r snapshot.Run) time.Duration {
	if r.NotBefore.IsZero() {
		return 0
	}
	return time.Until(r.NotBefore)
}

type believes struct{ *snapshot.Memory }

func (b believes) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	if !r.NotBefore.IsZero() {
		r.Pause = max(0, time.Until(r.NotBefore))
	}
	return b.Memory.Begin(ctx, r)
}

type keepsPause struct{ *snapshot.Memory }

func (k keepsPause) Save(ctx context.Context, r snapshot.Run) error {
	if in := find(ctx, k.Memory, r.Key); in != nil && r.Pause == 0 {
		r.Pause = in.Pause
	}
	return k.Memory.Save(ctx, r)
}

type adoptsDue struct{ *snapshot.Memory }

func (a adoptsDue) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, attempts int) (snapshot.Run, error) {
	r, err := a.Memory.Adopt(ctx, k, f, attempts)
	r.Pause, r.NotBefore = 0, time.Time{}
	return r, err
}

type shortPauses struct{ *snapshot.Memory }

func (s shortPauses) Save(ctx context.Context, r snapshot.Run) error {
	if r.Pause > 30*24*time.Hour {
		return snapshot.ErrInvalid
	}
	return s.Memory.Save(ctx, r)
}

// A spaced gives payloads back as PostgreSQL does, with a space after each comma. Save refuses a payload that is too
// long. judged returns the payload that Save judges.
type spaced struct {
	*snapshot.Memory
	judged func(given, stored json.RawMessage) json.RawMessage
}

func asGiven(given, _ json.RawMessage) json.RawMessage { return given }

func asStored(given, stored json.RawMessage) json.RawMessage {
	if len(given) > 0 {
		return nil
	}
	return stored
}

func (s spaced) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	r.Payload = spread(r.Payload)
	return s.Memory.Begin(ctx, r)
}

func (s spaced) Save(ctx context.Context, r snapshot.Run) error {
	if in := find(ctx, s.Memory, r.Key); in != nil && len(s.judged(r.Payload, in.Payload)) > 16<<20 {
		return snapshot.ErrInvalid
	}
	r.Payload = spread(r.Payload)
	return s.Memory.Save(ctx, r)
}

func spread(doc json.RawMessage) json.RawMessage {
	if bytes.Contains(doc, []byte(`, `)) {
		return doc
	}
	return bytes.ReplaceAll(doc, []byte(`,`), []byte(`, `))
}
