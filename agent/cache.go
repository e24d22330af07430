package agent

import (
	"container/list"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// cacheBytes is about how many bytes of decoded messages an agent keeps, over all sessions.
const cacheBytes = 32 << 20

// A cache keeps messages of transcripts decoded. A message that has a number never changes. Only a session that was
// deleted and begun again has others: State.Born tells the two apart. The sessions that nobody has asked for longest go
// first.
type cache struct {
	most  int        // bytes
	mu    sync.Mutex // protects following fields
	size  int
	by    map[string]*list.Element // by session
	order list.List                // of *kept, the newest in front
}

// A kept has messages of a session, by number.
type kept struct {
	session, born string
	size          int
	msgs          map[int64]message.Message
}

// get returns the messages of spans, with room for more behind them, and the spans of those that the cache lacks.
func (c *cache) get(
	session, born string, spans []transcript.Span, more int,
) (all []message.Message, missing []transcript.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var msgs map[int64]message.Message
	if e := c.by[session]; e != nil && e.Value.(*kept).born == born {
		c.order.MoveToFront(e)
		msgs = e.Value.(*kept).msgs
	}
	all = make([]message.Message, 0, len(msgs)+more)
	for n := range numbers(spans) {
		m, ok := msgs[n]
		all = append(all, m)
		if ok {
			continue
		}
		if last := len(missing) - 1; last >= 0 && missing[last].Through == n-1 {
			missing[last].Through = n
			continue
		}
		missing = append(missing, transcript.Span{From: n, Through: n})
	}
	return all, missing
}

// put keeps messages of a session beside those that it has. If these are more than twice those of shown, only the
// messages of shown stay.
func (c *cache) put(session, born string, msgs map[int64]message.Message, shown []transcript.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &kept{session: session, born: born, msgs: make(map[int64]message.Message)}
	if e := c.by[session]; e != nil {
		c.remove(e)
		switch was := e.Value.(*kept); {
		case was.born != born:
		case shown == nil || int64(len(was.msgs)) <= 2*transcript.Count(shown):
			k = was
		default:
			for n := range numbers(shown) {
				if m, ok := was.msgs[n]; ok {
					k.add(n, m)
				}
			}
		}
	}
	for n, m := range msgs {
		k.add(n, m)
	}
	if k.size > c.most/2 {
		return
	}
	if c.by == nil {
		c.by = make(map[string]*list.Element)
	}
	c.by[session] = c.order.PushFront(k)
	for c.size += k.size; c.size > c.most; {
		c.remove(c.order.Back())
	}
}

func (k *kept) add(n int64, m message.Message) {
	if _, ok := k.msgs[n]; !ok {
		k.msgs[n] = m
		k.size += size(m) + 200 // for its place in the map
	}
}

func (c *cache) remove(e *list.Element) {
	k := c.order.Remove(e).(*kept)
	c.size -= k.size
	delete(c.by, k.session)
}

// numbers yields the numbers of spans.
func numbers(spans []transcript.Span) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, s := range spans {
			for n := s.From; n > 0 && n <= s.Through; n++ {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// said returns the messages of spans, and tail behind them. Their lists of blocks are the caller's.
func (a *Agent[C]) said(
	ctx context.Context, t *Turn[C], spans []transcript.Span, tail []message.Message,
) ([]message.Message, error) {
	all, missing := a.cache.get(t.Session, t.State.Born, spans, len(tail))
	read := make(map[int64]message.Message)
	for _, s := range missing {
		n := s.From
		for m, err := range a.stores.Transcript.Read(ctx, a.key(t.Session), []transcript.Span{s}) {
			if err != nil {
				return nil, err
			}
			read[n] = m
			n++
		}
	}
	a.cache.put(t.Session, t.State.Born, read, spans)
	if len(read) > 0 {
		i := 0
		for n := range numbers(spans) {
			if m, ok := read[n]; ok {
				all[i] = m
			}
			i++
		}
	}
	return owned(append(all, tail...)), nil
}

// owned gives messages lists of blocks of their own.
func owned(all []message.Message) []message.Message {
	n := 0
	for _, m := range all {
		n += len(m.Blocks)
	}
	blocks := make([]message.Block, 0, n)
	for i, m := range all {
		from := len(blocks)
		blocks = append(blocks, m.Blocks...)
		all[i].Blocks = slices.Clip(blocks[from:])
	}
	return all
}
