package agent

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/holdfast-go/holdfast/message"
)

// What a state remembers at most of calls that have their results: with it a state is as large after 10,000 calls as
// after 1,000.
const (
	mostAnswered = 1000
	mostNames    = 8 << 10 // bytes of those who have answered
	mostChildren = 50
)

// An Answered says who has answered which calls: the newest 1,000. State.AnsweredBy reads it. It is short, since each
// save of a turn has it.
type Answered struct {
	By []string `json:",omitempty"`

	// Calls are runs of calls that one person has answered, the oldest first. Of each run it has the place in By, how
	// many calls they are, and of each call four bytes of the hash of its id.
	Calls []byte `json:",omitempty"`

	More bool `json:",omitempty"` // there were older ones
}

// A given is the hash of a call, and who has answered it. Two ids hardly ever have one hash. If they do, an answer to a
// call that never was is ErrAnswered: a call that waits is told from all others by its id.
type given struct {
	call [4]byte
	by   string
}

func hashOf(call string) [4]byte {
	sum := sha256.Sum256([]byte(call))
	return [4]byte(sum[:])
}

// AnsweredBy returns who has answered a call, if it is one of the newest 1,000. The transcript has the older ones.
func (s *State[C]) AnsweredBy(call string) (by string, ok bool) {
	all, hash := s.Answered.list(), hashOf(call)
	if i := slices.IndexFunc(all, func(g given) bool { return g.call == hash }); i >= 0 {
		return all[i].by, true
	}
	return "", false
}

func (a Answered) list() (all []given) {
	for rest := a.Calls; len(rest) > 0; {
		place, n := binary.Uvarint(rest)
		calls, m := binary.Uvarint(rest[max(n, 0):])
		if n <= 0 || m <= 0 || place >= uint64(len(a.By)) {
			break // it was written by hand
		}
		for rest = rest[n+m:]; calls > 0 && len(rest) >= 4; calls-- {
			all, rest = append(all, given{[4]byte(rest), a.By[place]}), rest[4:]
		}
	}
	return all
}

// with returns a with one more call. It forgets the oldest ones.
func (a Answered) with(call, by string) Answered {
	all := append(a.list(), given{hashOf(call), by})
	for first := max(len(all)-mostAnswered, 0); ; first++ {
		next, names := packed(all[first:])
		if next.More = a.More || first > 0; names <= mostNames {
			return next
		}
	}
}

// packed returns all as an Answered, and how many bytes the names in it have.
func packed(all []given) (a Answered, names int) {
	places := make(map[string]int)
	for len(all) > 0 {
		by, calls := all[0].by, 1
		for calls < len(all) && all[calls].by == by {
			calls++
		}
		place, ok := places[by]
		if !ok {
			place, a.By, names = len(a.By), append(a.By, by), names+len(by)
			places[by] = place
		}
		a.Calls = binary.AppendUvarint(binary.AppendUvarint(a.Calls, uint64(place)), uint64(calls))
		for _, g := range all[:calls] {
			a.Calls = append(a.Calls, g.call[:]...)
		}
		all = all[calls:]
	}
	return a, names
}

// answeredBefore reports whether a call that does not wait was answered. Of the calls that the state has forgotten, the
// transcript has those of this session, and the tool says whether they have waited.
func (a *Agent[C]) answeredBefore(ctx context.Context, t *Turn[C], call string) (bool, error) {
	s := &t.State
	if _, ok := s.AnsweredBy(call); ok || !s.Answered.More {
		return ok, nil
	}
	waited, was := false, false
	look := func(m message.Message) {
		for _, b := range m.Blocks {
			if c, ok := b.Call(); ok && c.ID == call {
				tool := a.tools[c.Name]
				waited = tool != nil && tool.waits(c.Args)
			}
			if r, ok := b.Result(); ok && r.CallID == call {
				was = was || waited && !unanswered(b.Text)
			}
		}
	}
	for m, err := range a.stores.Transcript.Read(ctx, a.key(t.Session), s.named()) {
		if err != nil {
			return false, err
		}
		look(m)
	}
	for _, m := range s.Tail {
		look(m)
	}
	return was, nil
}

// asks notes that a child is asked. Of those that are done it forgets all that Delete finds by their names, but for one
// of each tool: if a deploy has removed the tool, Delete names it.
func (a *Agent[C]) asks(t *Turn[C], child string, tool *Tool) {
	s := &t.State
	if len(s.Children) >= mostChildren {
		kept := make(map[string]string)
		witness := make(map[string]bool)
		for child, name := range s.Children {
			tool := a.tools[name]
			if tool == nil || tool.Bind || !witness[name] || child[:len(child)-20] != t.Session+"/"+name+"/" {
				kept[child], witness[name] = name, true
			}
		}
		for _, o := range s.Open {
			if o.Child != "" {
				kept[o.Child] = o.Call.Name
			}
		}
		s.Children = kept
	}
	s.Children = with(s.Children, child, tool.Name)
}
