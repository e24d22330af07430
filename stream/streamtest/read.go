package streamtest

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/stream"
)

var readClauses = []clause{
	{"read-unknown", "A session that has shown nothing is Ended at 0, and its Read ends at once.", func(p *probe) {
		p.wantLast(key, 0, stream.Ended)
		for _, seq := range []int64{0, stream.Newest} {
			if got := p.read(key, seq); len(got) > 0 {
				fail("%d chunks of a session that has shown nothing", len(got))
			}
		}
		p.wantGone(key, 1)
	}},
	{"read-after", "Read begins after any number.", func(p *probe) {
		p.append(stream.Ended, words(0, 5)...)
		for seq := range int64(6) {
			wantChunks(p.read(key, seq), seq+1, "r-1", words(int(seq), 5-int(seq)))
		}
	}},
	{"read-above", "A number above the last one is gone.", func(p *probe) {
		p.append(stream.Active, words(0, 2)...)
		p.wantGone(key, 3)
	}},
	{"read-newest", "With Newest, Read begins at the first chunk of the newest run.", func(p *probe) {
		p.append(stream.Ended, words(0, 3)...)
		p.appendAs(key, "r-2", 1, stream.Active, words(3, 1)...)
		p.appendAs(key, "r-2", 2, stream.Ended, words(4, 1)...)
		wantChunks(p.read(key, stream.Newest), 4, "r-2", words(3, 2))
	}},
	{"read-owned", "A caller owns what it gets.", func(p *probe) {
		data := words(0, 1)
		p.append(stream.Ended, data...)
		copy(data[0], "xxxxx")
		got := p.read(key, 0)
		wantChunks(got, 1, "r-1", words(0, 1))
		copy(got[0].Data, "xxxxx")
		wantChunks(p.read(key, 0), 1, "r-1", words(0, 1))
	}},
	{"read-calls", "The loop over Read may call the store, and may be left.", func(p *probe) {
		p.append(stream.Ended, words(0, 3)...)
		for c, err := range p.store.Read(p.ctx, key, 0) {
			ok(err)
			p.wantLast(key, 3, stream.Ended)
			if c.Seq == 2 {
				break
			}
		}
		wantChunks(p.read(key, 2), 3, "r-1", words(2, 1))
	}},
	{"delete", "After Delete the session has shown nothing.", func(p *probe) {
		p.append(stream.Active, words(0, 3)...)
		ok(p.store.Delete(p.ctx, key))
		p.wantLast(key, 0, stream.Ended)
		p.wantGone(key, 2)
		ok(p.store.Delete(p.ctx, key))
	}},
}

var waitClauses = []clause{
	{"wait", "Read goes on as chunks come, and ends with the status that is over.", func(p *probe) {
		for _, over := range []stream.Status{stream.Ended, stream.Failed, stream.Paused} {
			k := stream.Key{Orchestrator: "bot", Session: string(over)}
			p.appendAs(k, "r-1", 1, stream.Active, words(0, 1)...)
			reader := p.follow(p.ctx, k, 0)
			reader.await(1)
			for i := 1; i < 4; i++ {
				p.appendAs(k, "r-1", 1, stream.Active, words(i, 1)...)
				reader.await(1)
			}
			p.appendAs(k, "r-1", 1, over, words(4, 1)...)
			ok(reader.end())
			wantChunks(reader.chunks, 1, "r-1", words(0, 5))
		}
	}},
	{"wait-status", "Read ends when the status is over, without a last chunk.", func(p *probe) {
		p.append(stream.Active, words(0, 1)...)
		reader := p.follow(p.ctx, key, 0)
		reader.await(1)
		p.append(stream.Ended)
		ok(reader.end())
	}},
	{"wait-many", "Each reader gets each chunk once.", func(p *probe) {
		p.append(stream.Active, words(0, 1)...)
		readers := make([]*reader, 16)
		for i := range readers {
			readers[i] = p.follow(p.ctx, key, int64(i%2))
		}
		for i := 1; i < 40; i += 3 {
			p.append(stream.Active, words(i, 3)...)
		}
		p.append(stream.Ended)
		for i, r := range readers {
			ok(r.end())
			wantChunks(r.chunks, int64(i%2+1), "r-1", words(i%2, 40-i%2))
		}
	}},
	{"wait-cut", "A reader that waits ends with the cause of its ctx.", func(p *probe) {
		p.append(stream.Active, words(0, 1)...)
		ctx, cancel := context.WithCancelCause(p.ctx)
		reader := p.follow(ctx, key, 0)
		reader.await(1)
		cancel(errCut)
		want(reader.end(), errCut)
	}},
	{"wait-delete", "Delete ends the readers that wait.", func(p *probe) {
		p.append(stream.Active, words(0, 1)...)
		reader := p.follow(p.ctx, key, 0)
		reader.await(1)
		ok(p.store.Delete(p.ctx, key))
		if err := reader.end(); err != nil {
			want(err, stream.ErrGone)
		}
	}},
}

var keepClauses = []clause{
	{"keep", "The newest chunks are kept, and at most twice as many. What is dropped is gone.", func(p *probe) {
		for i := 0; i < 3*stream.DefaultKeep; i += 512 {
			p.append(stream.Active, words(i, 512)...)
		}
		p.append(stream.Ended)
		last := int64(3 * stream.DefaultKeep)
		p.wantLast(key, last, stream.Ended)
		got := p.read(key, last-stream.DefaultKeep)
		wantChunks(got, last-stream.DefaultKeep+1, "r-1", words(2*stream.DefaultKeep, stream.DefaultKeep))
		p.wantGone(key, last-2*stream.DefaultKeep-1)
		p.wantGone(key, 0)
		newest := p.read(key, stream.Newest)
		if len(newest) < stream.DefaultKeep || newest[len(newest)-1].Seq != last {
			fail("Newest yields %d chunks of a run that is longer than what is kept", len(newest))
		}
	}},
}

// A reader reads in a goroutine of its own.
type reader struct {
	chunks []stream.Chunk // until end
	err    error          // until end
	got    chan struct{}
	done   chan struct{}
	ctx    context.Context
}

func (p *probe) follow(ctx context.Context, k stream.Key, seq int64) *reader {
	r := &reader{got: make(chan struct{}, 4096), done: make(chan struct{}), ctx: p.ctx}
	go func() {
		defer close(r.done)
		for c, err := range p.store.Read(ctx, k, seq) {
			if err != nil {
				r.err = err
				return
			}
			r.chunks = append(r.chunks, stream.Chunk{Seq: c.Seq, Run: c.Run, Data: slices.Clone(c.Data)})
			r.got <- struct{}{}
		}
	}()
	return r
}

var errSilent = errors.New("the reader waits for ever")

// await waits until the reader has got n more chunks.
func (r *reader) await(n int) {
	for range n {
		select {
		case <-r.got:
		case <-r.done:
			if len(r.got) == 0 {
				fail("Read has ended: %v", r.err)
			}
			<-r.got
		case <-r.ctx.Done():
			ok(errSilent)
		}
	}
}

// end waits until Read has ended, and returns its error.
func (r *reader) end() error {
	select {
	case <-r.done:
		return r.err
	case <-r.ctx.Done():
		return errSilent
	}
}
