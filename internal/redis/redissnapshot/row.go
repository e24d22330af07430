package redissnapshot

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// encode returns the arguments that scripts take of a run, in the scripts' order: the fields of every run, and then the
// parts.
func encode(r snapshot.Run) []any {
	pause := ""
	if r.Pause > 0 {
		pause = strconv.FormatInt(r.Pause.Microseconds(), 10)
	}
	args := []any{
		r.ID, r.RequestID, r.Turn, r.Attempt, r.Base, string(r.Status), r.Seq, r.Fence.Epoch, r.Fence.Nonce, r.Error,
		pause, []byte(r.Payload),
	}
	for name, doc := range r.Parts {
		args = append(args, name, []byte(doc))
	}
	return args
}

// decode returns the run that a script has told. If no store wrote the run, decode returns a *snapshot.DamagedError
// too.
func decode(k snapshot.Key, values []string) (snapshot.Run, error) {
	r, err := parse(k, values)
	if err != nil {
		return r, snapshot.Damaged(k, err)
	}
	return r, r.Intact()
}

// fixed is how many values of a run a script replies. The parts follow.
const fixed = 16

func parse(k snapshot.Key, values []string) (r snapshot.Run, err error) {
	r.Key = k
	if len(values) < fixed || (len(values)-fixed)%2 != 0 {
		return r, fmt.Errorf("%d values, want %d and pairs", len(values), fixed)
	}
	number := func(what, v string) (n int64) {
		if err == nil {
			if n, err = strconv.ParseInt(v, 10, 64); err != nil {
				err = fmt.Errorf("%s: %w", what, err)
			}
		}
		return n
	}
	instant := func(what, v string) time.Time { return time.UnixMicro(number(what, v)).UTC() }
	r = snapshot.Run{
		Key: k, ID: values[0], RequestID: values[1], Base: values[4], Status: snapshot.Status(values[5]),
		Error: values[9], Turn: int(number("turn", values[2])), Attempt: int(number("attempt", values[3])),
		Seq:       number("seq", values[6]),
		Fence:     lock.Fence{Epoch: number("epoch", values[7]), Nonce: values[8]},
		StartedAt: instant("started", values[11]), SavedAt: instant("saved", values[12]),
		Pause: time.Duration(number("left", values[14])) * time.Microsecond,
		Age:   time.Duration(number("age", values[15])) * time.Microsecond,
	}
	if values[10] != "" {
		r.Payload = json.RawMessage(values[10])
	}
	if values[13] != "" {
		r.NotBefore = instant("not before", values[13])
	}
	r.Parts = pairs(values[fixed:])
	return r, err
}

// pairs returns the parts that a script has told, each as name and document; nil if there are none.
func pairs(values []string) map[string]json.RawMessage {
	if len(values) == 0 {
		return nil
	}
	parts := make(map[string]json.RawMessage, len(values)/2)
	for i := 0; i < len(values); i += 2 {
		parts[values[i]] = json.RawMessage(values[i+1])
	}
	return parts
}
