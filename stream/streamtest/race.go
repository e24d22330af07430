package streamtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/stream"
)

// raceClauses are about calls at once.
var raceClauses = []clause{
	{"append-race", "Appends at once lose and double nothing.", func(p *probe) {
		p.atOnce(8, func(i int) error {
			for n := range 10 {
				if _, err := p.store.Append(p.ctx, key, "r-1", 1, stream.Active, words(100*i+3*n, 3)); err != nil {
					return err
				}
			}
			return nil
		})
		p.append(stream.Ended)
		all := p.read(key, 0)
		wantNumbers(all, 1)
		seen := make(map[string]bool)
		for _, c := range all {
			seen[string(c.Data)] = true
		}
		if len(seen) != 240 || len(all) != 240 {
			fail("%d chunks and %d different ones, want 240", len(all), len(seen))
		}
	}},
	{"append-race-owners", "No chunk of a former owner comes after one of its successor.", func(p *probe) {
		const owners, turns = 8, 12
		p.atOnce(owners, func(i int) error {
			for n := range turns {
				epoch := int64(n*owners + i + 1)
				data := slices.Repeat([]json.RawMessage{json.RawMessage(fmt.Sprint(epoch))}, 2)
				if _, err := p.store.Append(p.ctx, key, "r-1", epoch, stream.Active, data); err != nil {
					return err
				}
			}
			return nil
		})
		p.appendAs(key, "r-1", owners*turns, stream.Ended)
		all := p.read(key, 0)
		wantNumbers(all, 1)
		var newest int64
		for _, c := range all {
			var epoch int64
			ok(json.Unmarshal(c.Data, &epoch))
			if epoch < newest {
				fail("chunk %d is of the owner with epoch %d, after one of %d", c.Seq, epoch, newest)
			}
			newest = epoch
		}
		if newest != owners*turns {
			fail("the last chunk is of the owner with epoch %d, want %d", newest, owners*turns)
		}
	}},
	{"wait-race", "While several append, readers get each chunk once, in order, the same for all.", func(p *probe) {
		p.append(stream.Active, words(0, 1)...)
		readers := make([]*reader, 16)
		for i := range readers {
			readers[i] = p.follow(p.ctx, key, int64(i%2))
		}
		p.atOnce(4, func(i int) error {
			for n := range 10 {
				if _, err := p.store.Append(p.ctx, key, "r-1", 1, stream.Active, words(1+100*i+2*n, 2)); err != nil {
					return err
				}
			}
			return nil
		})
		p.append(stream.Ended)
		all := p.read(key, 0)
		for i, r := range readers {
			ok(r.end())
			wantNumbers(r.chunks, int64(i%2+1))
			if len(r.chunks) != 81-i%2 {
				fail("a reader gets %d chunks, want %d", len(r.chunks), 81-i%2)
			}
			for j, c := range r.chunks {
				if !same(c.Data, all[j+i%2].Data) {
					fail("chunk %d is %s for one reader and %s for another", c.Seq, c.Data, all[j+i%2].Data)
				}
			}
		}
	}},
	{"delete-race", "If Deletes and Appends meet, the numbers of what is left have no gaps.", func(p *probe) {
		p.atOnce(4, func(i int) error {
			for n := range 20 {
				if i == 0 {
					if err := p.store.Delete(p.ctx, key); err != nil {
						return err
					}
					continue
				}
				if _, err := p.store.Append(p.ctx, key, "r-1", 1, stream.Active, words(n, 2)); err != nil {
					return err
				}
			}
			return nil
		})
		last := p.append(stream.Ended, words(0, 2)...)
		all := p.read(key, 0)
		wantNumbers(all, 1)
		if int64(len(all)) != last {
			fail("%d chunks, and the last has the number %d", len(all), last)
		}
	}},
}

// atOnce runs f in goroutines.
func (p *probe) atOnce(n int, f func(i int) error) {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range errs {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	ok(errors.Join(errs...))
}

// wantNumbers checks that the numbers have no gaps.
func wantNumbers(all []stream.Chunk, first int64) {
	for i, c := range all {
		if c.Seq != first+int64(i) {
			fail("number %d follows %d", c.Seq, first+int64(i)-1)
		}
	}
}
