package transcripttest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// A flawed store keeps the contract but for one flaw. Each flaw is a mistake that a store may have.
type flawed struct {
	flaw     string
	lock     chan struct{}
	mu       sync.Mutex // protects following field
	sessions map[transcript.Key][]entry
}

type entry struct {
	transcript.Span
	id   string
	body []byte
	msgs []message.Message
	at   time.Time
}

func newFlawed(flaw string) *flawed {
	return &flawed{
		flaw: flaw, lock: make(chan struct{}, 1), sessions: make(map[transcript.Key][]entry),
	}
}

func (s *flawed) has(flaws ...string) bool { return slices.Contains(flaws, s.flaw) }

// enter takes the lock that one call at a time has.
func (s *flawed) enter(ctx context.Context) (leave func(), err error) {
	if s.has("ctx is not looked at") {
		ctx = context.WithoutCancel(ctx)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case s.lock <- struct{}{}:
		return func() { <-s.lock }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pause lets others act, if they must not.
func (s *flawed) pause(flaws ...string) {
	if !s.has(flaws...) {
		return
	}
	<-s.lock
	for range 100 {
		runtime.Gosched()
	}
	s.lock <- struct{}{}
}

// get and put use a session, as a statement does.
func (s *flawed) get(k transcript.Key) []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sessions[s.key(k)])
}

func (s *flawed) put(k transcript.Key, all []entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.From, b.From) })
	s.sessions[s.key(k)] = all
}

func (s *flawed) key(k transcript.Key) transcript.Key {
	switch s.flaw {
	case "sessions are compared without case":
		k.Session = strings.ToLower(k.Session)
	case "sessions are trimmed":
		k.Session = strings.TrimSpace(k.Session)
	case "names are joined":
		k = transcript.Key{Session: k.Orchestrator + "/" + k.Session}
	case "names are cut":
		k.Session = k.Session[:min(len(k.Session), 255)]
	case "orchestrators are one":
		k.Orchestrator = ""
	}
	return k
}

func (s *flawed) id(id string) string {
	switch s.flaw {
	case "ids are compared without case":
		return strings.ToLower(id)
	case "ids are trimmed":
		return strings.TrimSpace(id)
	}
	return id
}

// find returns the entry of an id.
func (s *flawed) find(k transcript.Key, all []entry, id string) (entry, bool) {
	same := func(e entry) bool { return e.id != "" && s.id(e.id) == s.id(id) }
	if s.has("ids are those of all sessions") {
		s.mu.Lock()
		defer s.mu.Unlock()
		for other := range s.sessions {
			all = append(all, s.sessions[other]...)
		}
	}
	if s.has("trimmed ids are remembered") {
		all = append(all, s.get(transcript.Key{Orchestrator: k.Orchestrator, Session: "had " + k.Session})...)
	}
	if i := slices.IndexFunc(all, same); i >= 0 {
		return all[i], true
	}
	return entry{}, false
}

func (s *flawed) Append(
	ctx context.Context, k transcript.Key, id string, msgs []message.Message,
) (transcript.Span, error) {
	body, err := transcript.EncodeEntry(k, id, msgs)
	if err != nil && !s.has("nothing is checked") {
		return transcript.Span{}, err
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return transcript.Span{}, err
	}
	defer leave()
	n := int64(len(msgs))
	all := s.get(k)
	if e, there := s.find(k, all, id); there && !s.has("a repeat appends again") {
		return s.again(k, all, e, body, n)
	}
	s.pause("an id is looked up, then written", "Append writes back what it has read")
	if !s.has("Append writes back what it has read") {
		all = s.get(k)
	}
	from := s.next(all)
	if s.pause("a number is read, then written"); s.has("a number is read, then written") {
		all = s.get(k)
	}
	e := entry{transcript.Span{From: from, Through: from + n - 1}, id, s.store(body), msgs, time.Now()}
	s.put(k, append(all, e))
	return e.Span, nil
}

// again is Append of an entry that is there.
func (s *flawed) again(
	k transcript.Key, all []entry, e entry, body []byte, n int64,
) (transcript.Span, error) {
	switch other := !bytes.Equal(e.body, body); {
	case s.has("a repeat is an error"), other && s.has("a repeat with other messages is an error"):
		return transcript.Span{}, errors.New("duplicate key")
	case other && s.has("the last one stays"):
		for i := range all {
			if all[i].id == e.id {
				all[i].body, all[i].Through = body, all[i].From+n-1
			}
		}
		s.put(k, all)
	case s.has("a repeat returns as many numbers as it has messages"):
		e.Through = e.From + n - 1
	}
	return e.Span, nil
}

// next returns the number of the next message.
func (s *flawed) next(all []entry) int64 {
	next := int64(1)
	for _, e := range all {
		switch {
		case s.has("numbers are counted"):
			next += e.Through - e.From + 1
		case s.has("a copy does not move the next number") && e.id == "":
		default:
			next = max(next, e.Through+1)
		}
	}
	switch {
	case s.has("numbers begin at 0"):
		next--
	case s.has("numbers have gaps") && len(all) > 0:
		next++
	}
	return next
}

// store returns what is kept of a body.
func (s *flawed) store(body []byte) []byte {
	var all []json.RawMessage
	switch {
	case s.has("documents are normalized"):
		var v any
		if json.Unmarshal(body, &v) == nil {
			body, _ = json.Marshal(v)
		}
	case s.has("large texts are cut") && len(body) > 1<<20+100:
		body = append(body[:1<<20:1<<20], `"}]}]`...)
	case s.has("many messages are cut") && json.Unmarshal(body, &all) == nil && len(all) > 1000:
		body, _ = json.Marshal(all[:1000])
	}
	return body
}

func (s *flawed) Copy(ctx context.Context, from, to transcript.Key, spans []transcript.Span) error {
	if err := transcript.ValidateCopy(from, to, spans); err != nil && !s.has("nothing is checked") {
		return err
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	source, there := s.get(from), s.get(to)
	if len(source) == 0 && s.has("a copy of nothing is an error") {
		return errors.New("not found")
	}
	s.pause("a copy looks, then writes", "a copy writes back what it has read")
	if s.has("a copy looks, then writes") && len(s.get(to)) > len(there) {
		return errors.New("duplicate key")
	}
	all := slices.Clone(there)
	for i, e := range source {
		if !s.named(e, spans) || i >= 256 && s.has("a copy has one page") {
			continue
		}
		err := s.meet(&all, there, s.copied(e, there, spans))
		if err != nil && !s.has("a copy stops in the middle") {
			return err
		}
		if err != nil {
			s.put(to, all)
			return err
		}
	}
	if s.has("a copy moves") {
		s.put(from, nil)
	}
	s.put(to, all)
	return nil
}

// copied returns what a copy makes of an entry.
func (s *flawed) copied(e entry, there []entry, spans []transcript.Span) entry {
	if !s.has("a copy keeps ids") {
		e.id = ""
	}
	if !s.has("a copy keeps times") {
		e.at = time.Now()
	}
	n := e.Through - e.From
	if s.has("a copy has new numbers") {
		e.From = s.next(there)
		e.Through = e.From + n
	}
	for _, o := range spans {
		var msgs []json.RawMessage
		if !s.has("a copy of a part is a part") || o.From <= e.From || o.From > e.Through {
			continue
		}
		if json.Unmarshal(e.body, &msgs) == nil {
			e.body, _ = json.Marshal(msgs[o.From-e.From:])
			e.From = o.From
		}
	}
	return e
}

// meet adds an entry to all, unless something is there at its numbers.
func (s *flawed) meet(all *[]entry, there []entry, e entry) error {
	i := slices.IndexFunc(there, func(o entry) bool {
		return o.From == e.From || o.From <= e.Through && e.From <= o.Through && !s.has("a copy compares first numbers")
	})
	if i < 0 {
		*all = append(*all, e)
		return nil
	}
	same := there[i].Span == e.Span && (bytes.Equal(there[i].body, e.body) || s.has("a copy compares numbers"))
	switch {
	case s.has("a copy replaces"), same && s.has("a copy takes ids away"):
		*all = slices.DeleteFunc(*all, func(o entry) bool { return o.From == there[i].From })
		*all = append(*all, e)
	case s.has("a repeated copy is refused"), !same && !s.has("a copy leaves what is there"):
		return transcript.ErrTaken
	}
	return nil
}

func (s *flawed) named(e entry, spans []transcript.Span) bool {
	return slices.ContainsFunc(spans, func(o transcript.Span) bool {
		if s.has("an entry in part is not named") {
			return o.From <= e.From && e.Through <= o.Through
		}
		return o.From <= e.Through && e.From <= o.Through
	})
}

func (s *flawed) Trim(
	ctx context.Context, k transcript.Key, spans []transcript.Span, before time.Time,
) (deleted int, err error) {
	if err := transcript.ValidateRead(k, spans); err != nil && !s.has("nothing is checked") {
		return 0, err
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	everything := s.everything(spans, before)
	if s.has("Trim names the first span only") && len(spans) > 1 {
		spans = spans[:1]
	}
	all := s.get(k)
	newest := len(all) - 1
	if s.has("the newest is the last that came") {
		for i := range all {
			if !all[i].at.Before(all[newest].at) {
				newest = i
			}
		}
	}
	s.pause("Trim writes back what it has read")
	var left, gone []entry
	for i, e := range all {
		stays := s.named(e, spans) || !e.at.Before(before) && !s.has("Trim knows no time") ||
			i == newest && !s.has("the newest is trimmed")
		if stays && !everything || len(gone) >= 256 && s.has("Trim deletes one page") {
			left = append(left, e)
			continue
		}
		gone = append(gone, e)
		if deleted++; !s.has("Trim counts entries") {
			deleted += int(e.Through - e.From)
		}
	}
	s.forget(k, left, gone, everything)
	return deleted, nil
}

// everything reports whether to delete all.
func (s *flawed) everything(spans []transcript.Span, before time.Time) bool {
	switch s.flaw {
	case "no spans are nil":
		return spans == nil && before.IsZero()
	case "no time is all times":
		return before.IsZero()
	case "times begin in 1970":
		return len(spans) == 0 && before.Unix() <= 0
	case "times are microseconds":
		return len(spans) == 0 && before.Truncate(time.Microsecond).IsZero()
	}
	return len(spans) == 0 && before.IsZero()
}

// forget deletes entries.
func (s *flawed) forget(k transcript.Key, left, gone []entry, everything bool) {
	if everything && s.has("numbers go on") && len(gone) > 0 {
		last := gone[len(gone)-1]
		left = append(left, entry{Span: last.Span, body: []byte(`[]`)})
	}
	s.put(k, left)
	if s.has("trimmed ids are remembered") {
		had := transcript.Key{Orchestrator: k.Orchestrator, Session: "had " + k.Session}
		s.put(had, append(s.get(had), gone...))
	}
}
