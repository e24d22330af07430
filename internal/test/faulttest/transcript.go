package faulttest

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// TranscriptModel compares a store with transcript.Memory by random histories: a few sessions are appended to, read,
// copied to each other and trimmed. It stops like [CheckpointModel].
func TranscriptModel(t *testing.T, newStore func(*testing.T) transcript.Store) {
	t.Helper()
	store := newStore(t)
	checkWithin(t, func(rt *rapid.T) {
		p := scripts{store, new(transcript.Memory), "bot " + crand.Text()}
		follow(rt, p.call, func(ctx context.Context) error {
			var errs []error
			for _, session := range scriptNames {
				whole := []transcript.Span{{From: 1, Through: 200}}
				errs = append(errs, p.sameRead(ctx, transcript.Key{Orchestrator: p.bot, Session: session}, whole))
			}
			return errors.Join(errs...)
		})
	})
}

// scripts are a store and the reference store, and the orchestrator of a history.
type scripts struct {
	store, model transcript.Store
	bot          string
}

// There are few of each, so that the calls of a history concern the same entries.
var (
	scriptNames    = []string{"a", "A", "{a}", "😀"}
	scriptSessions = rapid.SampledFrom(scriptNames)
	scriptCalls    = rapid.SampledFrom(strings.Fields("append append append append read copy copy trim trim all"))
	scriptIDs      = rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "é", "É"})
	scriptTimes    = rapid.SampledFrom([]time.Time{{}, time.Unix(0, 0), time.Now().Add(240 * time.Hour)})
)

func drawSpans(t *rapid.T) []transcript.Span {
	one := rapid.Custom(func(t *rapid.T) transcript.Span {
		if rapid.IntRange(0, 9).Draw(t, "zero") == 0 {
			return transcript.Span{}
		}
		from := rapid.Int64Range(1, 30).Draw(t, "from")
		return transcript.Span{From: from, Through: from + rapid.Int64Range(0, 8).Draw(t, "more")}
	})
	return rapid.SliceOfN(one, 0, 4).Draw(t, "spans")
}

// drawMessages returns messages of a few kinds.
func drawMessages(t *rapid.T) (msgs []message.Message) {
	for range rapid.IntRange(1, 4).Draw(t, "messages") {
		doc, err := json.Marshal(map[string]json.RawMessage{"kind": []byte(`"image"`), "doc": drawDocument(t)})
		if err != nil {
			t.Fatal(err)
		}
		msgs = append(msgs, message.Message{
			ID: rapid.SampledFrom([]string{"", "m"}).Draw(t, "id"), Role: message.RoleAssistant,
			Blocks: []message.Block{message.Text("said"), {Kind: "image", Raw: doc}},
		})
	}
	return msgs
}

func (p scripts) call(ctx context.Context, t *rapid.T) error {
	k := transcript.Key{Orchestrator: p.bot, Session: scriptSessions.Draw(t, "session")}
	switch what := scriptCalls.Draw(t, "what"); what {
	case "append":
		id, msgs := scriptIDs.Draw(t, "id"), drawMessages(t)
		got, err := p.store.Append(ctx, k, id, msgs)
		want, wantErr := p.model.Append(ctx, k, id, msgs)
		if got != want {
			return fmt.Errorf("%s of %q: %v, %w, want %v", what, id, got, err, want)
		}
		return errors.Join(err, wantErr)
	case "read":
		return p.sameRead(ctx, k, drawSpans(t))
	case "copy":
		to := k
		to.Session = scriptSessions.Draw(t, "to")
		spans := drawSpans(t)
		err, wantErr := p.store.Copy(ctx, k, to, spans), p.model.Copy(ctx, k, to, spans)
		for _, verdict := range []error{transcript.ErrTaken, transcript.ErrInvalid} {
			if errors.Is(err, verdict) && errors.Is(wantErr, verdict) {
				return nil
			}
		}
		if err != nil || wantErr != nil {
			return fmt.Errorf("%s of %v: %w, want %w", what, spans, err, wantErr)
		}
		return nil
	case "trim":
		spans, before := drawSpans(t), scriptTimes.Draw(t, "before")
		return p.sameTrim(ctx, k, spans, before)
	default:
		return p.sameTrim(ctx, k, nil, time.Time{})
	}
}

func (p scripts) sameTrim(ctx context.Context, k transcript.Key, spans []transcript.Span, before time.Time) error {
	got, err := p.store.Trim(ctx, k, spans, before)
	want, wantErr := p.model.Trim(ctx, k, spans, before)
	if got != want {
		return fmt.Errorf("trim of all but %v deletes %d, %w, want %d", spans, got, err, want)
	}
	return errors.Join(err, wantErr)
}

// sameRead compares what both stores yield.
func (p scripts) sameRead(ctx context.Context, k transcript.Key, spans []transcript.Span) error {
	got, err := lines(p.store.Read(ctx, k, spans))
	want, wantErr := lines(p.model.Read(ctx, k, spans))
	if err == nil && wantErr == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("messages %v of %q are %q, want %q", spans, k.Session, got, want)
	}
	return errors.Join(err, wantErr)
}

// lines returns what Read yields. Damaged or missing messages are the numbers of the error.
func lines(read iter.Seq2[message.Message, error]) (all []string, err error) {
	for m, err := range read {
		if d, is := errors.AsType[*transcript.DamagedError](err); is {
			all = append(all, d.ID)
			continue
		}
		if err != nil {
			return nil, err
		}
		doc, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		all = append(all, string(doc))
	}
	return all, nil
}

// A scriptState is the entries of the one session of a history, in order: "id:from-through" each.
type scriptState string

// A scriptEntry is an entry of a scriptState.
type scriptEntry struct {
	id            string
	from, through int64
}

// A scriptCall is the input of one operation of a history.
type scriptCall struct {
	op string // append, read, trim, clear or copy
	id string
	n  int64 // how many messages append has, or which one is read
}

// A scriptReply is the answer of a store.
type scriptReply struct {
	span    transcript.Span // append
	of      string          // read: the id of the entry that has the message, or ""
	deleted int             // trim and clear
	taken   bool            // copy
}

// scriptSource has the messages that copy copies: "src" at 1 and 2.
var scriptSource = scriptEntry{"src", 1, 2}

func (s scriptState) entries() (all []scriptEntry) {
	for _, text := range strings.Fields(string(s)) {
		var e scriptEntry
		_, err := fmt.Sscanf(strings.ReplaceAll(text, ":", " "), "%s %d %d", &e.id, &e.from, &e.through)
		if err != nil {
			panic(err)
		}
		all = append(all, e)
	}
	return all
}

func scriptOf(all []scriptEntry) scriptState {
	var b strings.Builder
	for _, e := range all {
		fmt.Fprintf(&b, "%s:%d:%d ", e.id, e.from, e.through)
	}
	return scriptState(b.String())
}

// step is the sequential specification of a session.
func (s scriptState) step(c scriptCall) (reply scriptReply, next scriptState) {
	all := s.entries()
	switch c.op {
	case "append":
		for _, e := range all {
			if e.id == c.id {
				return scriptReply{span: transcript.Span{From: e.from, Through: e.through}}, s
			}
		}
		from := int64(1)
		if n := len(all); n > 0 {
			from = all[n-1].through + 1
		}
		e := scriptEntry{c.id, from, from + c.n - 1}
		return scriptReply{span: transcript.Span{From: e.from, Through: e.through}}, scriptOf(append(all, e))
	case "read":
		for _, e := range all {
			if e.from <= c.n && c.n <= e.through {
				reply.of = e.id
			}
		}
		return reply, s
	case "copy":
		i := slices.IndexFunc(all, func(e scriptEntry) bool { return e.from <= scriptSource.through })
		switch {
		case i < 0:
			all = slices.Insert(all, 0, scriptSource)
		case all[i] != scriptSource:
			reply.taken = true
		}
		return reply, scriptOf(all)
	}
	var left []scriptEntry
	for i, e := range all {
		if c.op == "trim" && i == len(all)-1 {
			left = append(left, e)
		} else {
			reply.deleted += int(e.through - e.from + 1)
		}
	}
	return reply, scriptOf(left)
}

// scriptSpec is the linearizable specification of a session. A Read of one message happens at one moment. A Read of
// several pages does not.
var scriptSpec = sequential(scriptState.step)

// TranscriptHistories records n histories of five workers on a store. If no order of the calls explains the replies,
// the test fails and prints the seed and the calls of the first such history.
func TranscriptHistories(t *testing.T, newStore func(*testing.T) transcript.Store, n int) {
	t.Helper()
	s := newStore(t)
	record := func(ctx context.Context, seed uint64) []porcupine.Operation { return recordScripts(ctx, s, seed) }
	again := func(c scriptCall, out scriptReply) bool { return c.op == "append" && out.span.From > 1 }
	legal(t, n, scriptSpec, record, again, "no two appends met")
}

// recordScripts lets five workers act at random on one session.
func recordScripts(ctx context.Context, s transcript.Store, seed uint64) []porcupine.Operation {
	to := transcript.Key{Orchestrator: "history " + crand.Text(), Session: "s"}
	source := transcript.Key{Orchestrator: to.Orchestrator, Session: "source"}
	if _, err := s.Append(ctx, source, "a", []message.Message{message.User("src"), message.User("src")}); err != nil {
		panic(err)
	}
	return together(ctx, seed, drawScriptCall, func(ctx context.Context, c scriptCall) (scriptReply, error) {
		return c.do(ctx, s, source, to)
	})
}

func drawScriptCall(rng *hand[scriptReply]) scriptCall {
	switch dice := rng.IntN(100); {
	case dice < 25:
		n := int64(1 + rng.IntN(4))
		for _, reply := range rng.replies {
			n = max(n, reply.span.From+int64(rng.IntN(6)-3))
		}
		return scriptCall{op: "read", n: n}
	case dice < 33:
		return scriptCall{op: "trim"}
	case dice < 38:
		return scriptCall{op: "clear"}
	case dice < 50:
		return scriptCall{op: "copy"}
	}
	return scriptCall{"append", fmt.Sprint("id", rng.IntN(12)), int64(1 + rng.IntN(3))}
}

func (c scriptCall) do(
	ctx context.Context, s transcript.Store, source, k transcript.Key,
) (out scriptReply, err error) {
	switch c.op {
	case "append":
		msgs := slices.Repeat([]message.Message{message.User(c.id)}, int(c.n))
		out.span, err = s.Append(ctx, k, c.id, msgs)
	case "copy":
		err = s.Copy(ctx, source, k, []transcript.Span{{From: 1, Through: 2}})
		if errors.Is(err, transcript.ErrTaken) {
			out.taken, err = true, nil
		}
	case "trim":
		out.deleted, err = s.Trim(ctx, k, nil, time.Now().Add(240*time.Hour))
	case "clear":
		out.deleted, err = s.Trim(ctx, k, nil, time.Time{})
	default:
		for m, err := range s.Read(ctx, k, []transcript.Span{{From: c.n, Through: c.n}}) {
			switch {
			case err == nil:
				out.of = m.Blocks[0].Text
			case !errors.Is(err, transcript.ErrDamaged):
				return out, err
			}
		}
	}
	return out, err
}
