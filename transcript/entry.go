package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/message"
)

// An Entry is what one Append has added, as a store keeps it. It is for the authors of a store.
type Entry struct {
	Span
	Body   []byte // what EncodeEntry has returned
	Unread error  // why the server cannot read the body
}

// Pages grow. The first messages should come soon. Pages stay small, because a page is held in memory.
const firstPage, mostPage = 64, 256

// A Pager returns the next entries that have messages of a span, by number, and whether there may be more: at most so
// many, and fewer if they are large.
type Pager func(ctx context.Context, s Span, most int) (page []Entry, more bool, err error)

// ReadPages is Read for the authors of a store. It calls page again behind the last entry.
func ReadPages(ctx context.Context, k Key, spans []Span, page Pager) iter.Seq2[message.Message, error] {
	return func(yield func(message.Message, error) bool) {
		if err := ValidateRead(k, spans); err != nil {
			yield(message.Message{}, err)
			return
		}
		r := reader{ctx: ctx, key: k, page: page, yield: yield, size: firstPage}
		for _, s := range spans {
			if s != (Span{}) && !r.span(s) {
				return
			}
		}
	}
}

// A reader yields what Read yields.
type reader struct {
	ctx   context.Context
	key   Key
	page  Pager
	yield func(message.Message, error) bool
	size  int // of the next page
}

// span reports whether to go on with the next one.
func (r *reader) span(left Span) bool {
	for left.From <= left.Through {
		entries, more, err := r.page(r.ctx, left, r.size)
		if err != nil {
			r.yield(message.Message{}, err)
			return false
		}
		from := left.From
		for _, e := range entries {
			e = e.within()
			if e.Through < left.From { // its numbers are damaged, or those of the entry before it
				continue
			}
			if left.From < e.From && !r.miss(Span{left.From, e.From - 1}) || !r.entry(e, left) {
				return false
			}
			left.From = e.Through + 1
		}
		if !more || left.From == from {
			break
		}
		r.size = mostPage
	}
	return left.From > left.Through || r.miss(left)
}

// within returns e, or only its first number, unread, if no entry has as many numbers.
func (e Entry) within() Entry {
	if n := e.count(); n < 1 || n > MaxMessages {
		e.Unread = fmt.Errorf("it has the numbers %d to %d", e.From, e.Through)
		e.Through = e.From
	}
	return e
}

var errMissing = errors.New("the transcript does not have them")

// miss yields the error of messages that are not there.
func (r *reader) miss(s Span) bool { return r.yield(message.Message{}, Damaged(r.key, s, errMissing)) }

// entry yields the messages of an entry that left has.
func (r *reader) entry(e Entry, left Span) bool {
	msgs, err := e.messages()
	if err != nil {
		return r.yield(message.Message{}, Damaged(r.key, e.Span, err))
	}
	for i, m := range msgs {
		if n := e.From + int64(i); n < left.From || n > left.Through {
			continue
		}
		if err := ctxcause.Of(r.ctx); err != nil {
			r.yield(message.Message{}, err)
			return false
		}
		if !r.yield(m, nil) {
			return false
		}
	}
	return true
}

// messages decodes an entry.
func (e Entry) messages() (msgs []message.Message, err error) {
	if e.Unread != nil {
		return nil, e.Unread
	}
	if !utf8.Valid(e.Body) { // encoding/json would replace what it cannot read
		return nil, errors.New("not UTF-8")
	}
	var all []stored
	if err := json.Unmarshal(e.Body, &all); err != nil {
		return nil, err
	}
	if n := int64(len(all)); n != e.count() {
		return nil, fmt.Errorf("it has %d messages", n)
	}
	msgs = make([]message.Message, len(all))
	for i := range all {
		msgs[i] = all[i].Message
	}
	return msgs, nil
}

// stored reads a message. Blocks of an unknown kind are no error of it.
type stored struct{ message.Message }

// UnmarshalJSON implements [json.Unmarshaler].
func (s *stored) UnmarshalJSON(doc []byte) error {
	if err := s.Message.UnmarshalJSON(doc); !errors.Is(err, message.ErrUnknownKind) {
		return err
	}
	return nil
}

// Damaged returns the error of entries that a store could not read because of err.
func Damaged(k Key, s Span, err error) *DamagedError {
	id := fmt.Sprint(s.From)
	if s.Through > s.From {
		id = fmt.Sprintf("%d to %d", s.From, s.Through)
	}
	return DamagedError{
		Key: k, What: "messages", ID: id, Remedy: "restore them, or let the state name others",
	}.Because(err)
}
