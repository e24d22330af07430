package checkpointtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

var (
	acceptedStates = []string{
		`0`, `null`, `true`, `""`, `[]`, `{}`, ` [ 1 , 2 ] `, `-0`, `1.50`, `1e2`, `1E-7`, `9007199254740993`,
		`123456789012345678901234567890.123456789`,
		`{"b":1,"a":{"c":[null,false]}}`, `{"é":"\u00e9","e\u0301":1}`, `"\ud83d\ude00"`,
		`"\"\\\/\b\f\n\r\t\u001f\u007f"`, `"\\u0000"`,
		`"line` + "\u2028" + `separator"`, `{"":0}`, `"` + "\U0010ffff" + `"`, `1e400`, `1e-400`,
		strings.Repeat("[", 100) + strings.Repeat("]", 100),
		`{"big":"` + strings.Repeat("x", 1<<20) + `"}`,
	}
	acceptedIDs = []string{
		"a", "a_", "%", ":", "{}", "}{", "/", "a/b", " ", "\n", "\x01", "a'b\"c;--", `\`,
		"😀", "\ufffd", "\U0010ffff", "é", "NULL", "*", "[a]", "$1", "?",
		strings.Repeat("x", 512), strings.Repeat("é", 256),
	}
	refusedIDs = []string{
		"", "\x00", "a\x00", "\xff", "a\xed\xa0\x80", strings.Repeat("x", 513), strings.Repeat("é", 257),
	}
)

// What is large is made when it is first asked for: each process that a test starts has this package.
var (
	refusedStates = sync.OnceValue(func() []string {
		return []string{
			``, ` `, `{`, `{"a":}`, `nope`, `'a'`, `01`, `1.`, `NaN`, `1 2`, `[1,]`,
			"\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"a\x00b\"",
			`"\u0000"`, `{"\u0000":1}`, `"\ud800"`, `"\udc00"`, `"\ud800\ud800"`, `"\x41"`, "\"\n\"",
			`1e131072`, `1e-16384`, `1e999999999999`,
			`"` + strings.Repeat("x", 16<<20) + `"`, `[` + strings.Repeat(`{},`, 400_000) + `{}]`,
			strings.Repeat(" ", 32<<20) + `1`,
		}
	})

	// largest returns a document of the largest size that a store takes. It is longer with a space after each comma.
	largest = sync.OnceValue(func() json.RawMessage {
		doc := `[` + strings.Repeat(`"",`, 100_000) + `"`
		return json.RawMessage(doc + strings.Repeat("x", 16<<20-len(doc)-len(`"]`)) + `"]`)
	})
)

var valueClauses = []clause{
	{
		name: "values-accepted",
		rule: "every backend takes these documents and gives back equal values",
		check: func(p *probe) {
			l := p.claim("a").Lease
			for n, doc := range acceptedStates {
				cp := turn(n)
				cp.State, cp.Payload = json.RawMessage(doc), json.RawMessage(doc)
				if err := p.tryAppend(l, cp); err != nil {
					fail("%.60s: %w", doc, err)
				}
				got, err := checkpoint.Load(p.ctx, p.store, key("a"), n)
				ok(err)
				ok(sameCheckpoint(got, cp))
			}
			last := p.steal("a").Last
			if last == nil || last.Turn != len(acceptedStates)-1 {
				fail("the newest is %s", describe(last))
			}
		},
	},
	{
		name: "values-refused",
		rule: "every backend refuses these documents with ErrInvalid",
		check: func(p *probe) {
			l := p.claim("a").Lease
			for _, doc := range refusedStates() {
				cp := turn(0)
				cp.State = json.RawMessage(doc)
				if err := p.tryAppend(l, cp); err == nil {
					fail("%.60q is accepted", doc)
				} else {
					want(err, checkpoint.ErrInvalid)
				}
			}
			p.wantTurns("a")
		},
	},
	{
		name: "values-largest",
		rule: "every backend takes a document of 16 MiB, and takes it again as it has given it back",
		check: func(p *probe) {
			l := p.claim("a").Lease
			cp := turn(0)
			cp.State = largest()
			for n := range 2 {
				cp.Turn, cp.RunID = n, fmt.Sprintf("run-%d", n)
				if err := p.tryAppend(l, cp); err != nil {
					fail("%d bytes, given back %d times: %w", len(cp.State), n, err)
				}
				got, err := checkpoint.Load(p.ctx, p.store, key("a"), n)
				ok(err)
				cp.State = got.State
			}
			short := []byte(cp.State)
			if !bytes.Equal(short, largest()) { // PostgreSQL puts a space after each comma
				var b bytes.Buffer
				ok(json.Compact(&b, short))
				short = b.Bytes()
			}
			if !bytes.Equal(short, largest()) {
				fail("%d bytes come back as another document of %d", len(largest()), len(short))
			}
		},
	},
	{
		name: "ids-accepted",
		rule: "every backend takes these names, and keeps them apart",
		check: func(p *probe) {
			for i, id := range acceptedIDs {
				k := checkpoint.Key{Orchestrator: id, Session: acceptedIDs[len(acceptedIDs)-1-i]}
				c, err := p.store.Claim(p.ctx, k, request(time.Hour))
				if err != nil {
					fail("%q: %w", k, err)
				}
				cp := run(0, id)
				cp.RequestID, cp.Signature, cp.Version, cp.Route = id, id, id, []string{id}
				ok(p.store.Append(p.ctx, c.Lease, cp, checkpoint.AppendOptions{Release: true}))
				r := request(time.Hour)
				r.RequestID, r.Owner = id, id
				c, err = p.store.Claim(p.ctx, k, r)
				ok(err)
				if c.Answered == nil {
					fail("request %q is not found", id)
				}
				ok(sameCheckpoint(*c.Answered, cp))
				var ids []string
				for id, err := range p.store.Sessions(p.ctx, checkpoint.SessionQuery{
					Orchestrator: k.Orchestrator, Prefix: k.Session,
				}) {
					ok(err)
					ids = append(ids, id)
				}
				if fmt.Sprint(ids) != fmt.Sprint([]string{k.Session}) {
					fail("sessions of %q are %q", k.Orchestrator, ids)
				}
			}
		},
	},
	{
		name: "ids-refused",
		rule: "every backend refuses these names with ErrInvalid",
		check: func(p *probe) {
			l := p.claim("a").Lease
			for _, id := range refusedIDs {
				for _, k := range []checkpoint.Key{{Orchestrator: id, Session: "a"}, {Orchestrator: bot, Session: id}} {
					_, err := p.store.Claim(p.ctx, k, request(time.Hour))
					want(err, checkpoint.ErrInvalid)
					bad := checkpoint.Lease{Key: k, Fence: l.Fence}
					want(p.store.Delete(p.ctx, bad), checkpoint.ErrInvalid)
					want(p.tryAppend(bad, turn(0)), checkpoint.ErrInvalid)
					want(p.store.Mark(p.ctx, bad, checkpoint.Marks{}), checkpoint.ErrInvalid)
					_, err = p.store.Renew(p.ctx, time.Hour, []checkpoint.Lease{l, bad})
					want(err, checkpoint.ErrInvalid)
				}
				r := request(time.Hour)
				r.Nonce = id
				_, err := p.store.Claim(p.ctx, key("b"), r)
				want(err, checkpoint.ErrInvalid)
				want(p.tryAppend(l, run(0, id)), checkpoint.ErrInvalid)
				bad := checkpoint.Lease{Key: l.Key, Fence: lock.Fence{Epoch: l.Fence.Epoch, Nonce: id}}
				want(p.tryAppend(bad, turn(0)), checkpoint.ErrInvalid)
				want(p.store.Delete(p.ctx, bad), checkpoint.ErrInvalid)
				if id != "" {
					p.refusesTexts(id)
				}
			}
			for _, ttl := range []time.Duration{0, -1, 1<<63 - 1} {
				_, err := p.store.Claim(p.ctx, key("b"), request(ttl))
				want(err, checkpoint.ErrInvalid)
				_, err = p.store.Renew(p.ctx, ttl, []checkpoint.Lease{l})
				want(err, checkpoint.ErrInvalid)
			}
			ok(p.tryClaim("b"))
			p.wantSessions(checkpoint.SessionQuery{})
		},
	},
}

// refusesTexts checks that no claim takes text as its owner or as its request id.
func (p *probe) refusesTexts(text string) {
	r := request(time.Hour)
	r.Owner = text
	_, err := p.store.Claim(p.ctx, key("b"), r)
	want(err, checkpoint.ErrInvalid)
	r = request(time.Hour)
	r.RequestID = text
	_, err = p.store.Claim(p.ctx, key("b"), r)
	want(err, checkpoint.ErrInvalid)
}
