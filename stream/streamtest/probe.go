package streamtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/stream"
)

// A probe is a store whose verbs leave the clause if they fail. Only the clause's goroutine may call them.
type probe struct {
	ctx   context.Context
	store stream.Store
}

// key is the session of most clauses.
var key = stream.Key{Orchestrator: "bot", Session: "s-1"}

// words returns n chunks that differ.
func words(from, n int) []json.RawMessage {
	all := make([]json.RawMessage, n)
	for i := range all {
		all[i] = json.RawMessage(fmt.Sprintf(`{"word":%d}`, from+i))
	}
	return all
}

// append appends chunks of run r-1 under epoch 1.
func (p *probe) append(s stream.Status, data ...json.RawMessage) int64 {
	return p.appendAs(key, "r-1", 1, s, data...)
}

func (p *probe) appendAs(k stream.Key, run string, epoch int64, s stream.Status, data ...json.RawMessage) int64 {
	last, err := p.store.Append(p.ctx, k, run, epoch, s, data)
	ok(err)
	return last
}

// read returns what Read yields after seq, until it ends.
func (p *probe) read(k stream.Key, seq int64) (chunks []stream.Chunk) {
	for c, err := range p.store.Read(p.ctx, k, seq) {
		ok(err)
		chunks = append(chunks, c)
	}
	return chunks
}

// wantGone checks that Read refuses a number.
func (p *probe) wantGone(k stream.Key, seq int64) {
	want(p.readError(k, seq), stream.ErrGone)
}

// readError returns the first error of a Read that yields no chunk.
func (p *probe) readError(k stream.Key, seq int64) error {
	for c, err := range p.store.Read(p.ctx, k, seq) {
		if err == nil {
			fail("Read after %d yields chunk %d, want an error", seq, c.Seq)
		}
		return err
	}
	fail("Read after %d ends without an error", seq)
	return nil
}

// wantChunks checks the numbers, the run and the data of chunks.
func wantChunks(got []stream.Chunk, first int64, run string, data []json.RawMessage) {
	if len(got) != len(data) {
		fail("%d chunks, want %d", len(got), len(data))
	}
	for i, c := range got {
		if c.Seq != first+int64(i) || c.Run != run {
			fail("chunk %d of %q, want %d of %q", c.Seq, c.Run, first+int64(i), run)
		}
		if !same(c.Data, data[i]) {
			fail("chunk %d is %.80s, want %.80s", c.Seq, c.Data, data[i])
		}
	}
}

func (p *probe) wantLast(k stream.Key, seq int64, s stream.Status) {
	gotSeq, _, gotStatus, err := p.store.Last(p.ctx, k)
	ok(err)
	if gotSeq != seq || gotStatus != s {
		fail("Last is %d, %q, want %d, %q", gotSeq, gotStatus, seq, s)
	}
}

func (p *probe) wantRun(k stream.Key, run string) {
	_, got, _, err := p.store.Last(p.ctx, k)
	ok(err)
	if got != run {
		fail("the run of the last Append is %q, want %q", got, run)
	}
}

func (p *probe) wantStarts(k stream.Key, want map[string]int64) {
	got, err := p.store.Starts(p.ctx, k)
	ok(err)
	if !maps.Equal(got, want) {
		fail("Starts is %v, want %v", got, want)
	}
}

// readUntil returns what Read yields after seq, up to the chunk last.
func (p *probe) readUntil(k stream.Key, seq, last int64) (chunks []stream.Chunk) {
	for c, err := range p.store.Read(p.ctx, k, seq) {
		ok(err)
		if chunks = append(chunks, c); c.Seq == last {
			break
		}
	}
	return chunks
}

// same reports whether two documents are equal as JSON values.
func same(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true // it saves most of the time of a test under the race detector
	}
	x, errX := jsonvalue.Canonical(a)
	y, errY := jsonvalue.Canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
