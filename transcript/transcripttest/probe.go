package transcripttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// A probe is a store whose verbs leave the clause if they fail. Only the clause's goroutine may call them.
type probe struct {
	ctx   context.Context
	store transcript.Store

	clocks int // sessions that later has used
}

func key(session string) transcript.Key { return transcript.Key{Orchestrator: "bot", Session: session} }

func span(from, through int64) transcript.Span { return transcript.Span{From: from, Through: through} }

// said returns a message of the user for each text.
func said(texts ...string) (msgs []message.Message) {
	for _, text := range texts {
		msgs = append(msgs, message.User(text))
	}
	return msgs
}

// texts returns n texts that begin with id.
func texts(id string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s.%d", id, i+1))
	}
	return all
}

// say appends n messages as an entry of session s, and returns its span.
func (p *probe) say(id string, n int) transcript.Span { return p.sayIn(key("s"), id, n) }

func (p *probe) sayIn(k transcript.Key, id string, n int) transcript.Span {
	return p.append(k, id, said(texts(id, n)...))
}

func (p *probe) append(k transcript.Key, id string, msgs []message.Message) transcript.Span {
	got, err := p.store.Append(p.ctx, k, id, msgs)
	ok(err)
	if got == (transcript.Span{}) {
		fail("Append of %q returns no span", id)
	}
	return got
}

// wantSaid appends n messages as an entry of session s, and checks the span.
func (p *probe) wantSaid(id string, n int, want transcript.Span) { p.wantSaidIn(key("s"), id, n, want) }

func (p *probe) wantSaidIn(k transcript.Key, id string, n int, want transcript.Span) {
	if got := p.sayIn(k, id, n); got != want {
		fail("Append of %d messages as %q in %q returns %v, want %v", n, id, k.Session, got, want)
	}
}

func (p *probe) copy(from, to transcript.Key, spans ...transcript.Span) {
	ok(p.store.Copy(p.ctx, from, to, spans))
}

// trim checks how many messages are deleted.
func (p *probe) trim(k transcript.Key, before time.Time, want int, spans ...transcript.Span) {
	deleted, err := p.store.Trim(p.ctx, k, spans, before)
	if ok(err); deleted != want {
		fail("Trim of all but %v before %v deletes %d messages, want %d", spans, before, deleted, want)
	}
}

// read returns the messages of spans. What is damaged or not there is the id of the error, behind a !.
func (p *probe) read(k transcript.Key, spans ...transcript.Span) (all []string, msgs []message.Message) {
	for m, err := range p.store.Read(p.ctx, k, spans) {
		if err != nil {
			all = append(all, "!"+damage(k, err))
			continue
		}
		msgs = append(msgs, m)
		all = append(all, name(m))
	}
	return all, msgs
}

// damage returns what the error of damaged or missing messages names.
func damage(k transcript.Key, err error) string {
	d, is := errors.AsType[*transcript.DamagedError](err)
	if !is || !errors.Is(err, transcript.ErrDamaged) {
		fail("got error %v, want a *DamagedError", err)
	}
	if d.Key != k || d.What == "" || d.Reason == "" {
		fail("the error names %s of %q because of %q, want messages of %q and a reason", d.What, d.Key, d.Reason, k)
	}
	return d.ID
}

// name returns the text of a message that said has made.
func name(m message.Message) string {
	if len(m.Blocks) == 1 && m.Role == message.RoleUser {
		return m.Blocks[0].Text
	}
	return form(m)
}

// wantRead checks what read returns.
func (p *probe) wantRead(k transcript.Key, spans []transcript.Span, want ...string) {
	if got, _ := p.read(k, spans...); !slices.Equal(got, want) {
		fail("messages %v of %q are %.300q, want %.300q", spans, k.Session, got, want)
	}
}

// wantAll checks the messages of session s from 1, and that there is none behind them.
func (p *probe) wantAll(want ...string) { p.wantAllIn(key("s"), want...) }

func (p *probe) wantAllIn(k transcript.Key, want ...string) {
	n := int64(len(want))
	all := []transcript.Span{span(1, n), span(n+1, n+5)}
	if n == 0 {
		all = all[1:]
	}
	p.wantRead(k, all, append(slices.Clone(want), missing(n+1, n+5))...)
}

// missing is what read returns for messages that are not there.
func missing(from, through int64) string {
	if from == through {
		return fmt.Sprintf("!%d", from)
	}
	return fmt.Sprintf("!%d to %d", from, through)
}

// form returns the stored form of a message.
func form(m message.Message) string {
	doc, err := json.Marshal(m)
	ok(err)
	return string(doc)
}

// Times that lie before and behind all entries by any clock.
var (
	past   = time.Date(1999, 1, 2, 3, 4, 5, 6, time.UTC)
	future = time.Now().Add(24 * time.Hour)
)

// later returns a time by the clock of the store. Each entry that was appended before is older, and each one that is
// appended or copied after is not. The store's clock must not be behind that of the test by more than the patience of
// the suite.
func (p *probe) later() time.Time {
	older := func(t time.Time) bool {
		p.clocks++
		k := key(fmt.Sprint("clock ", p.clocks))
		p.sayIn(k, "a", 1)
		p.sayIn(k, "newest", 1)
		deleted, err := p.store.Trim(p.ctx, k, nil, t)
		ok(err)
		return deleted > 0
	}
	t := time.Now().Truncate(time.Millisecond)
	for step := time.Millisecond; !older(t); step *= 2 {
		t = t.Add(step)
	}
	for older(t) {
	}
	return t
}
