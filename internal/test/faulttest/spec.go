package faulttest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// A call is the input of one operation of a history.
type call struct {
	op      string // claim, append, release, renew or delete
	key     checkpoint.Key
	nonce   string     // claim
	long    bool       // claim, renew: until history ends
	from    lock.Fence // claim
	request string
	fence   lock.Fence // append, release, renew, delete
	turn    int
	run     string // also its request id
	keep    int
	release bool
}

// A reply is the store's answer to a call.
type reply struct {
	err      error      // of verdicts; nil: done
	unknown  bool       // it may happen at any time
	fence    lock.Fence // claim: granted, or of HeldError
	born     int64
	last     string // run of the newest turn
	turn     int    // of newest turn; -1: none
	answered bool
	lost     bool
}

// A head is the state of one session. Heads are compared with ==.
type head struct {
	exists, owned bool
	long          bool  // lease lasts; else it may be over
	epoch         int64 // last one in a reply
	hidden        bool  // a later one is in no reply
	nonce         string
	born          int64 // 0: hidden
	last          int
	kept          string // run ids, oldest first
}

// spec is the linearizable specification of the sessions of a store.
var spec = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		sessions := map[checkpoint.Key][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(call).key
			sessions[k] = append(sessions[k], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range sessions {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return head{last: -1} },
	Step: func(state, input, output any) (bool, any) {
		return state.(head).step(input.(call), output.(reply))
	},
	DescribeOperation: func(input, output any) string { return describe(input.(call), output.(reply)) },
}

// step reports whether h can give that reply, and returns the next head. If the reply is unknown and the call is
// possible, the call happens. If the call did not happen, porcupine can put it after all others, where no reply shows
// its effect.
func (h head) step(in call, out reply) (bool, head) {
	switch in.op {
	case "claim":
		return h.claim(in, out)
	case "append":
		next, err := h.append(in)
		return out.unknown || out.err == err, next
	case "release":
		if h.latest(in.fence) {
			h.owned = false
		}
		return out.unknown || out.err == nil, h
	case "renew":
		held := h.owned && h.latest(in.fence)
		if held {
			h.long = in.long
		}
		return out.unknown || out.err == nil && out.lost != held, h
	default:
		next, err := h.remove(in)
		return out.unknown || out.err == err, next
	}
}

// latest reports whether f was issued last. If a caller bears f, a reply contained f, so f is not a hidden one.
func (h head) latest(f lock.Fence) bool {
	return h.exists && !h.hidden && f == lock.Fence{Epoch: h.epoch, Nonce: h.nonce}
}

func (h head) claim(in call, out reply) (bool, head) {
	again := h.owned && h.nonce == in.nonce
	plain := in.from == lock.Fence{}
	taken := h.owned && h.latest(in.from)
	switch {
	case out.err == lock.ErrHeld:
		if again || taken || plain && !h.owned {
			return false, h
		}
		return h.named(out.fence, plain)
	case out.err != nil && !out.unknown:
		return false, h
	case !again && !taken && (!plain || h.owned && h.long):
		return out.unknown, h
	}
	next := h
	next.exists, next.owned, next.long, next.nonce = true, true, in.long, in.nonce
	if out.unknown {
		next.hidden = h.hidden || !again
		return true, next
	}
	next.epoch, next.hidden, next.born = out.fence.Epoch, false, out.born
	fence := out.fence.Epoch > h.epoch
	if again {
		fence = h.hidden && fence || out.fence.Epoch == h.epoch
	}
	born := out.born == h.born || h.exists && h.born == 0
	if !h.exists {
		born = out.born == out.fence.Epoch
	}
	runs := strings.Fields(h.kept)
	answered := in.request != "" && slices.Contains(runs, in.request)
	return fence && born && out.fence.Nonce == in.nonce && out.answered == answered &&
		out.turn == h.last && out.last == newest(runs), next
}

// named reports whether a HeldError may name this fence. The fence may be a hidden one. If the lease may be over, the
// error may name none. A plain claim may be refused while there is an owner, and read the name when there is none.
func (h head) named(f lock.Fence, plain bool) (bool, head) {
	if f == (lock.Fence{}) {
		return plain || !h.owned || !h.long, h
	}
	ok := h.owned && f.Nonce == h.nonce && (f.Epoch == h.epoch && !h.hidden || f.Epoch > h.epoch && h.hidden)
	h.epoch, h.hidden = f.Epoch, false
	return ok, h
}

func (h head) remove(in call) (head, error) {
	if h.exists && !(h.owned && h.latest(in.fence)) {
		return h, lock.ErrFenced
	}
	return head{epoch: h.epoch, hidden: h.hidden, last: -1}, nil
}

func newest(runs []string) string {
	if len(runs) == 0 {
		return ""
	}
	return runs[len(runs)-1]
}

func (h head) append(in call) (head, error) {
	runs := strings.Fields(h.kept)
	owner := h.owned && h.latest(in.fence)
	switch {
	case owner && in.turn == h.last+1:
	case slices.Contains(runs, in.run):
		return h, nil
	case !owner:
		return h, lock.ErrFenced
	default:
		return h, checkpoint.ErrConflict
	}
	runs = append(runs, in.run)
	h.kept = strings.Join(runs[max(0, len(runs)-in.keep):], " ")
	h.last = in.turn
	h.owned = !in.release
	return h, nil
}

func describe(in call, out reply) string {
	var args string
	result := "ok"
	switch in.op {
	case "claim":
		args = fmt.Sprintf("%s long=%t from=%v request=%s", in.nonce, in.long, in.from, in.request)
		result = fmt.Sprintf("%v born %d last %d %s answered=%t", out.fence, out.born, out.turn, out.last, out.answered)
	case "append":
		args = fmt.Sprintf("%v turn %d run %s keep %d release=%t", in.fence, in.turn, in.run, in.keep, in.release)
	case "renew":
		args, result = fmt.Sprint(in.fence), fmt.Sprintf("lost=%t", out.lost)
	case "release", "delete":
		args = fmt.Sprint(in.fence)
	}
	switch {
	case out.unknown:
		result = fmt.Sprint("unknown: ", out.err)
	case out.err != nil:
		result = out.err.Error()
		if out.err == lock.ErrHeld {
			result += fmt.Sprint(" ", out.fence)
		}
	}
	return fmt.Sprintf("%q %s(%s) -> %s", in.key.Session, in.op, args, result)
}
