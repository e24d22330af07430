package streamtest

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/stream"
)

// text returns a chunk of n bytes.
func text(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }

// limitClauses are about what is as large as it may be.
var limitClauses = []clause{
	{"limit-chunk", "A chunk may have 1 MiB.", func(p *probe) {
		data := []json.RawMessage{text(stream.MaxChunk), text(3)}
		p.append(stream.Ended, data...)
		wantChunks(p.read(key, 0), 1, "r-1", data)
		wantChunks(p.read(key, 1), 2, "r-1", data[1:])
	}},
	{"limit-chunks", "An Append may have 1,024 chunks.", func(p *probe) {
		if last := p.append(stream.Ended, words(0, stream.MaxChunks)...); last != stream.MaxChunks {
			fail("the last number is %d", last)
		}
		wantChunks(p.read(key, 0), 1, "r-1", words(0, stream.MaxChunks))
		wantChunks(p.read(key, 1000), 1001, "r-1", words(1000, 24))
	}},
	{"limit-append", "An Append may have 4 MiB, and a reader gets more than one of them.", func(p *probe) {
		data := slices.Repeat([]json.RawMessage{text(stream.MaxAppend / 8)}, 8)
		for range 3 {
			p.append(stream.Active, data...)
		}
		p.append(stream.Ended)
		wantChunks(p.read(key, 0), 1, "r-1", slices.Repeat(data, 3))
		wantChunks(p.read(key, 13), 14, "r-1", slices.Repeat(data, 3)[13:])
	}},
	{"limit-names", "Names may have 512 bytes.", func(p *probe) {
		k := stream.Key{Orchestrator: strings.Repeat("ö", 256), Session: strings.Repeat("%", 512)}
		run := strings.Repeat("{", 512)
		p.appendAs(k, run, 1, stream.Active, words(0, 1)...)
		reader := p.follow(p.ctx, k, 0)
		reader.await(1)
		p.appendAs(k, run, 1, stream.Ended, words(1, 1)...)
		ok(reader.end())
		wantChunks(reader.chunks, 1, run, words(0, 2))
	}},
	{"limit-epochs", "Epochs are compared as whole numbers of 64 bits.", func(p *probe) {
		for i, epoch := range []int64{9, 10, 99, 1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64} {
			p.appendAs(key, "r-1", epoch, stream.Active, words(i, 1)...)
			p.appendAs(key, "r-0", epoch-1, stream.Failed, words(9, 1)...)
		}
		p.wantLast(key, 7, stream.Active)
		p.appendAs(key, "r-1", math.MaxInt64, stream.Ended)
		wantChunks(p.read(key, 0), 1, "r-1", words(0, 7))
	}},
}
