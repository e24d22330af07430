package redissnapshot

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// encode returns what scripts take of a run, in their order.
func encode(r snapshot.Run) []any {
	notBefore := ""
	if !r.NotBefore.IsZero() {
		notBefore = strconv.FormatInt(r.NotBefore.UnixMicro(), 10)
	}
	return []any{
		r.ID, r.RequestID, r.Turn, r.Attempt, r.Base, string(r.Status), r.Seq, r.Fence.Epoch, r.Fence.Nonce, r.Error, notBefore, []byte(r.Payload),
	}
}

// decode returns the run that a script has told, or what about it no store wrote.
func decode(k snapshot.Key, values []string) (snapshot.Run, error) {
	r, err := parse(k, values)
	if err == nil {
		err = r.Validate()
	}
	if err != nil {
		return snapshot.Run{}, fmt.Errorf("%w: run of %q: %w", snapshot.ErrInvalid, k.Session, err)
	}
	return r, nil
}

func parse(k snapshot.Key, values []string) (r snapshot.Run, err error) {
	const parts = 14
	if len(values) != parts {
		return r, fmt.Errorf("%d parts, want %d", len(values), parts)
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
		Key: k, ID: values[0], RequestID: values[1], Turn: int(number("turn", values[2])), Attempt: int(number("attempt", values[3])), Base: values[4],
		Status: snapshot.Status(values[5]), Seq: number("seq", values[6]), Fence: lock.Fence{Epoch: number("epoch", values[7]), Nonce: values[8]},
		Error: values[9], StartedAt: instant("started", values[12]), SavedAt: instant("saved", values[13]),
	}
	if values[10] != "" {
		r.NotBefore = instant("not before", values[10])
	}
	if values[11] != "" {
		r.Payload = json.RawMessage(values[11])
	}
	return r, err
}
