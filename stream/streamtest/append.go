package streamtest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/stream"
)

var errCut = errors.New("the reader was cut off")

var appendClauses = []clause{
	{"append", "Append numbers the chunks of a session from 1 without gaps, and returns the last one.", func(p *probe) {
		if last := p.append(stream.Active, words(0, 3)...); last != 3 {
			fail("the last number is %d, want 3", last)
		}
		if last := p.append(stream.Ended, words(3, 2)...); last != 5 {
			fail("the last number is %d, want 5", last)
		}
		wantChunks(p.read(key, 0), 1, "r-1", words(0, 5))
	}},
	{"append-runs", "Numbers go on over the runs of a session, and each chunk has its run.", func(p *probe) {
		p.append(stream.Ended, words(0, 2)...)
		p.appendAs(key, "r-2", 2, stream.Ended, words(2, 2)...)
		all := p.read(key, 0)
		if len(all) != 4 {
			fail("%d chunks, want 4", len(all))
		}
		wantChunks(all[:2], 1, "r-1", words(0, 2))
		wantChunks(all[2:], 3, "r-2", words(2, 2))
	}},
	{"append-nothing", "Append without data sets the status only.", func(p *probe) {
		p.append(stream.Active, words(0, 2)...)
		if last := p.append(stream.Paused); last != 2 {
			fail("the last number is %d, want 2", last)
		}
		p.wantLast(key, 2, stream.Paused)
	}},
	{"append-statuses", "Each status is kept, and a session may go on after any.", func(p *probe) {
		for i, s := range []stream.Status{stream.Ended, stream.Active, stream.Failed, stream.Active, stream.Paused} {
			p.append(s, words(i, 1)...)
			p.wantLast(key, int64(i+1), s)
		}
	}},
	{"last-run", "Last names the run of the last Append, with data or without.", func(p *probe) {
		for _, c := range []struct {
			run  string
			data []json.RawMessage
		}{{"r-1", words(0, 2)}, {"r-2", nil}, {"r-2", words(2, 1)}, {"r-1", nil}} {
			p.appendAs(key, c.run, 1, stream.Active, c.data...)
			p.wantRun(key, c.run)
		}
		p.wantRun(stream.Key{Orchestrator: key.Orchestrator, Session: "unknown"}, "")
		ok(p.store.Delete(p.ctx, key))
		p.wantRun(key, "")
	}},
	{"append-superseded", "Chunks of a former owner are dropped without an error, with their status.", func(p *probe) {
		p.appendAs(key, "r-1", 7, stream.Active, words(0, 1)...)
		if last := p.appendAs(key, "r-0", 6, stream.Failed, words(9, 3)...); last != 1 {
			fail("the last number is %d, want 1", last)
		}
		p.wantLast(key, 1, stream.Active)
		p.appendAs(key, "r-1", 7, stream.Ended, words(1, 1)...)
		wantChunks(p.read(key, 0), 1, "r-1", words(0, 2))
	}},
	{"append-new-owner", "A higher epoch supersedes the owners before it.", func(p *probe) {
		p.appendAs(key, "r-1", 1, stream.Active, words(0, 1)...)
		p.appendAs(key, "r-1", 1<<52, stream.Active, words(1, 1)...)
		p.appendAs(key, "r-1", 1, stream.Failed, words(9, 1)...)
		p.appendAs(key, "r-1", 1<<52, stream.Ended, words(2, 1)...)
		wantChunks(p.read(key, 0), 1, "r-1", words(0, 3))
	}},
	{"append-sessions", "Sessions and orchestrators are apart, and names are no patterns.", func(p *probe) {
		keys := []stream.Key{
			{Orchestrator: "bot", Session: "%"},
			{Orchestrator: "bot", Session: "a_"},
			{Orchestrator: "bot", Session: "ab"},
			{Orchestrator: "bot", Session: "{}"},
			{Orchestrator: "bo", Session: "t:ab"},
			{Orchestrator: "bot2", Session: "ab"},
			{Orchestrator: "bot", Session: "AB"},
			{Orchestrator: "bot", Session: "ab "},
			{Orchestrator: "bot", Session: "a/b"},
			{Orchestrator: "bot", Session: "a%2Fb"},
			{Orchestrator: "bot/a", Session: "b"},
			{Orchestrator: "bot:ab", Session: "ab"},
			{Orchestrator: "bot", Session: "\u00e9"},
			{Orchestrator: "bot", Session: "e\u0301"},
			{Orchestrator: "*", Session: "line\nbreak 🙂"},
			{Orchestrator: strings.Repeat("o", 512), Session: "ab"},
		}
		for i, k := range keys {
			p.appendAs(k, "r", int64(100-i), stream.Ended, words(10*i, 2)...)
		}
		for i, k := range keys {
			wantChunks(p.read(k, 0), 1, "r", words(10*i, 2))
		}
	}},
	{"append-values", "Data comes back equal as a JSON value.", func(p *probe) {
		data := []json.RawMessage{
			json.RawMessage("null"), json.RawMessage("0"), json.RawMessage(` { "b" : 1, "a" : [ 1.50, "\u00e9\ud83d\ude42" ] } `),
			json.RawMessage(`"` + strings.Repeat("x", 200_000) + `"`),
		}
		p.append(stream.Ended, data...)
		wantChunks(p.read(key, 0), 1, "r-1", data)
	}},
	{"append-refused", "What no store takes is refused, and nothing is appended.", func(p *probe) {
		one := words(0, 1)
		long := stream.Key{Orchestrator: "bot", Session: strings.Repeat("s", 513)}
		noJSON := []json.RawMessage{one[0], json.RawMessage("{")}
		large := []json.RawMessage{json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
		eighths := slices.Repeat([]json.RawMessage{text(stream.MaxAppend / 8)}, 8)
		for name, err := range map[string]error{
			"an epoch of 0":    appended(p, key, "r", 0, stream.Active, one),
			"no run":           appended(p, key, "", 1, stream.Active, one),
			"no session":       appended(p, stream.Key{Orchestrator: "bot"}, "r", 1, stream.Active, one),
			"a long session":   appended(p, long, "r", 1, stream.Active, one),
			"no status":        appended(p, key, "r", 1, "", one),
			"data as no JSON":  appended(p, key, "r", 1, stream.Active, noJSON),
			"U+0000":           appended(p, key, "r", 1, stream.Active, []json.RawMessage{json.RawMessage(`"\u0000"`)}),
			"a large chunk":    appended(p, key, "r", 1, stream.Active, large),
			"too many bytes":   appended(p, key, "r", 1, stream.Active, append(eighths, text(3))),
			"too many chunks":  appended(p, key, "r", 1, stream.Active, words(0, stream.MaxChunks+1)),
			"a negative Read":  p.readError(key, -2),
			"Read of no name":  p.readError(stream.Key{}, 0),
			"Delete of no one": p.store.Delete(p.ctx, stream.Key{Orchestrator: "bot"}),
		} {
			if !errors.Is(err, stream.ErrInvalid) {
				fail("%s: %v, want ErrInvalid", name, err)
			}
		}
		p.wantLast(key, 0, stream.Ended)
	}},
	{"append-cancelled", "A ctx that has ended stops each call, with its cause.", func(p *probe) {
		ctx, cancel := context.WithCancelCause(p.ctx)
		cancel(errCut)
		_, err := p.store.Append(ctx, key, "r-1", 1, stream.Active, words(0, 1))
		want(err, errCut)
		_, _, _, err = p.store.Last(ctx, key)
		want(err, errCut)
		want(p.store.Delete(ctx, key), errCut)
		cut := &probe{ctx: ctx, store: p.store}
		want(cut.readError(key, 0), errCut)
		p.wantLast(key, 0, stream.Ended)
	}},
}

func appended(p *probe, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage) error {
	_, err := p.store.Append(p.ctx, k, run, epoch, s, data)
	return err
}
