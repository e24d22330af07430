package streamtest

import (
	"context"
	"errors"
	"fmt"
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
	{"read-newest-begun", "A run begins with its first Append, also of no data. Newest begins there.", func(p *probe) {
		p.append(stream.Ended, words(0, 3)...)
		p.appendAs(key, "r-2", 2, stream.Paused)
		if got := p.read(key, stream.Newest); len(got) > 0 {
			fail("Newest yields chunk %d of the run before", got[0].Seq)
		}
		p.appendAs(key, "r-2", 2, stream.Active)
		reader := p.follow(p.ctx, key, stream.Newest)
		p.appendAs(key, "r-2", 2, stream.Active, words(3, 1)...)
		reader.await(1)
		p.appendAs(key, "r-3", 3, stream.Ended, words(4, 1)...)
		ok(reader.end())
		if len(reader.chunks) != 2 {
			fail("%d chunks, want 2", len(reader.chunks))
		}
		wantChunks(reader.chunks[:1], 4, "r-2", words(3, 1))
		wantChunks(reader.chunks[1:], 5, "r-3", words(4, 1))
		wantChunks(p.read(key, stream.Newest), 5, "r-3", words(4, 1))
	}},
	{"starts", "Starts has the first chunk of each run that has shown something, and no other run.", func(p *probe) {
		p.wantStarts(key, nil)
		p.append(stream.Ended, words(0, 3)...)
		p.appendAs(key, "r-2", 2, stream.Active, words(3, 1)...)
		p.appendAs(key, "r-2", 2, stream.Ended, words(4, 2)...)
		p.appendAs(key, "r-3", 3, stream.Failed)
		p.appendAs(stream.Key{Orchestrator: "bot", Session: "s-2"}, "r-9", 3, stream.Ended, words(0, 1)...)
		p.wantStarts(key, map[string]int64{"r-1": 1, "r-2": 4})
		p.append(stream.Ended, words(9, 1)...) // of a former owner
		p.appendAs(key, "r-1", 4, stream.Ended, words(6, 1)...)
		p.appendAs(key, "r-4", 5, stream.Active, words(7, 1)...)
		p.wantStarts(key, map[string]int64{"r-1": 1, "r-2": 4, "r-4": 8})
		wantChunks(p.readUntil(key, 3, 6), 4, "r-2", words(3, 3))
		ok(p.store.Delete(p.ctx, key))
		p.wantStarts(key, nil)
		p.appendAs(key, "r-5", 6, stream.Ended, words(0, 1)...)
		p.wantStarts(key, map[string]int64{"r-5": 1})
	}},
	{"starts-many", "Starts has each of many runs, each of many Appends.", func(p *probe) {
		want := make(map[string]int64)
		for i := range int64(150) {
			run := fmt.Sprint("r-", i/3)
			last := p.appendAs(key, run, i+1, stream.Ended, words(0, 2)...)
			if i%3 == 0 {
				want[run] = last - 1
			}
		}
		p.wantStarts(key, want)
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
	{"read-cut", "Read ends with the cause of its ctx, also if chunks are left.", func(p *probe) {
		p.append(stream.Ended, words(0, 3)...)
		ctx, cancel := context.WithCancelCause(p.ctx)
		defer cancel(nil)
		var chunks []stream.Chunk
		var last error
		for c, err := range p.store.Read(ctx, key, 0) {
			if last = err; err == nil {
				chunks = append(chunks, c)
			}
			cancel(errCut)
		}
		want(last, errCut)
		wantChunks(chunks, 1, "r-1", words(0, 1))
	}},
	{"delete", "After Delete the session has shown nothing.", func(p *probe) {
		p.append(stream.Active, words(0, 3)...)
		ok(p.store.Delete(p.ctx, key))
		p.wantLast(key, 0, stream.Ended)
		p.wantGone(key, 2)
		ok(p.store.Delete(p.ctx, key))
	}},
	{"delete-anew", "After Delete a session begins anew, with number 1, under any epoch.", func(p *probe) {
		p.appendAs(key, "r-1", 7, stream.Active, words(0, 3)...)
		other := stream.Key{Orchestrator: "bot", Session: "s-2"}
		p.appendAs(other, "r-1", 7, stream.Ended, words(0, 3)...)
		ok(p.store.Delete(p.ctx, key))
		if last := p.appendAs(key, "r-1", 2, stream.Ended, words(3, 2)...); last != 2 {
			fail("the last number is %d, want 2", last)
		}
		wantChunks(p.read(key, 0), 1, "r-1", words(3, 2))
		wantChunks(p.read(key, stream.Newest), 1, "r-1", words(3, 2))
		p.wantLast(other, 3, stream.Ended)
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
	{"wait-active", "An Append without data that leaves the session active ends no reader.", func(p *probe) {
		p.append(stream.Active, words(0, 1)...)
		reader := p.follow(p.ctx, key, 0)
		reader.await(1)
		p.append(stream.Active)
		p.appendAs(key, "r-2", 2, stream.Active)
		p.append(stream.Failed) // of a former owner
		p.wantLast(key, 1, stream.Active)
		p.appendAs(key, "r-2", 2, stream.Active, words(1, 1)...)
		reader.await(1)
		p.appendAs(key, "r-2", 2, stream.Paused)
		ok(reader.end())
	}},
	{"wait-apart", "What other sessions show ends no reader.", func(p *probe) {
		p.append(stream.Active, words(0, 1)...)
		reader := p.follow(p.ctx, key, 0)
		reader.await(1)
		others := []stream.Key{{Orchestrator: "bot", Session: "s-2"}, {Orchestrator: "bot2", Session: key.Session}}
		for _, k := range others {
			p.appendAs(k, "r-9", 9, stream.Ended, words(0, 5)...)
			ok(p.store.Delete(p.ctx, k))
		}
		p.append(stream.Active, words(1, 1)...)
		reader.await(1)
		p.append(stream.Ended)
		ok(reader.end())
		wantChunks(reader.chunks, 1, "r-1", words(0, 2))
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

// lifeClauses are about readers whose session is deleted.
var lifeClauses = []clause{
	{"delete-next", "No reader goes on in the next life of its session.", func(p *probe) {
		p.append(stream.Active, words(0, 3)...)
		stall := make(chan struct{})
		slow := p.stall(key, 3, stall)
		ok(p.store.Delete(p.ctx, key))
		p.appendAs(key, "r-2", 2, stream.Ended, words(3, 5)...)
		close(stall)
		if err := slow.end(); err != nil {
			want(err, stream.ErrGone)
		}
		wantChunks(slow.chunks, 1, "r-1", words(0, 3))
		wantChunks(p.read(key, 0), 1, "r-2", words(3, 5))
	}},
}

// slowClauses are about readers whose loops stand still.
var slowClauses = []clause{
	{"slow", "A reader whose loop stands still keeps nobody from anything.", func(p *probe) {
		p.append(stream.Active, words(0, 3)...)
		stall := make(chan struct{})
		slow := make([]*reader, 16)
		for i := range slow {
			slow[i] = p.stall(key, 1, stall)
		}
		p.append(stream.Active, words(3, 3)...)
		p.wantLast(key, 6, stream.Active)
		reader := p.follow(p.ctx, key, 0)
		reader.await(6)
		p.append(stream.Ended)
		ok(reader.end())
		close(stall)
		for _, r := range slow {
			ok(r.end())
			wantChunks(r.chunks, 1, "r-1", words(0, 6))
		}
		ok(p.store.Delete(p.ctx, key))
	}},
	{"slow-behind", "A reader that falls behind what is kept gets ErrGone. It misses nothing before.", func(p *probe) {
		p.append(stream.Active, words(0, 300)...)
		stall := make(chan struct{})
		slow := p.stall(key, 1, stall)
		for i := range 3 * stream.DefaultKeep / 512 {
			p.append(stream.Active, words(300+512*i, 512)...)
		}
		p.append(stream.Ended)
		close(stall)
		want(slow.end(), stream.ErrGone)
		wantChunks(slow.chunks, 1, "r-1", words(0, len(slow.chunks)))
	}},
}

// stall returns a reader whose loop stands still after n chunks, until stall is closed.
func (p *probe) stall(k stream.Key, n int, stall <-chan struct{}) *reader {
	r := p.followBy(p.ctx, k, 0, func(got int) {
		if got == n {
			select {
			case <-stall:
			case <-p.ctx.Done():
			}
		}
	})
	r.await(n)
	return r
}

var keepClauses = []clause{
	{"keep", "The newest chunks are kept, and at most twice as many. What is dropped is gone.", func(p *probe) {
		const keep, step = stream.DefaultKeep, 512
		for i := 0; i < 3*keep; i += step {
			status := stream.Active
			if i >= 2*keep-step && i <= 2*keep || i == 3*keep-step {
				status = stream.Ended
			}
			last := p.append(status, words(i, step)...)
			if status == stream.Ended {
				wantChunks(p.read(key, last-keep), last-keep+1, "r-1", words(int(last)-keep, keep))
			}
		}
		last := int64(3 * keep)
		p.wantLast(key, last, stream.Ended)
		p.wantGone(key, last-2*keep-1)
		p.wantGone(key, 0)
		newest := p.read(key, stream.Newest)
		if len(newest) < keep || newest[len(newest)-1].Seq != last {
			fail("Newest yields %d chunks of a run that is longer than what is kept", len(newest))
		}
		first := newest[0].Seq // the oldest chunk that is kept
		p.wantGone(key, first-2)
		wantChunks(p.read(key, first-1), first, "r-1", words(int(first)-1, len(newest)))
		p.wantStarts(key, map[string]int64{"r-1": first})
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
	return p.followBy(ctx, k, seq, func(int) {})
}

// followBy calls each in the loop, with the number of chunks so far.
func (p *probe) followBy(ctx context.Context, k stream.Key, seq int64, each func(got int)) *reader {
	r := &reader{got: make(chan struct{}, 1<<15), done: make(chan struct{}), ctx: p.ctx}
	go func() {
		defer close(r.done)
		for c, err := range p.store.Read(ctx, k, seq) {
			if err != nil {
				r.err = err
				return
			}
			r.chunks = append(r.chunks, stream.Chunk{Seq: c.Seq, Run: c.Run, Data: slices.Clone(c.Data)})
			r.got <- struct{}{}
			each(len(r.chunks))
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
