package faulttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

var verdicts = []error{
	lock.ErrHeld, lock.ErrFenced,
	checkpoint.ErrConflict, checkpoint.ErrInvalid, checkpoint.ErrNotFound, checkpoint.ErrSchema,
}

// verdict returns the contract's word for err: nil, or one of verdicts. An error of the backend itself stays as it is.
func verdict(err error) error {
	for _, v := range verdicts {
		if errors.Is(err, v) {
			return v
		}
	}
	return err
}

// wantVerdict returns an error unless got means want.
func wantVerdict(got, want error) error {
	if verdict(got) != want {
		return fmt.Errorf("got error %v, want %v", got, want)
	}
	return nil
}

// sameClaim compares c with the life of its session.
func sameClaim(c checkpoint.Claimed, k checkpoint.Key, request string, l *life) error {
	type numbers struct {
		key                         checkpoint.Key
		fence                       lock.Fence
		born, summarized, delivered int64
		failed                      int
	}
	got := numbers{c.Key, c.Fence, c.Born, int64(c.Summarized), int64(c.Delivered), c.Failed}
	want := numbers{k, l.fence, l.born, int64(l.summarized), int64(l.delivered), l.failed}
	if got != want {
		return fmt.Errorf("claimed %+v, want %+v", got, want)
	}
	if err := sameTurn(c.Last, l.newest(func(*checkpoint.Checkpoint) bool { return true })); err != nil {
		return fmt.Errorf("last: %w", err)
	}
	var answered *checkpoint.Checkpoint
	if request != "" {
		answered = l.newest(func(cp *checkpoint.Checkpoint) bool { return cp.RequestID == request })
	}
	if err := sameTurn(c.Answered, answered); err != nil {
		return fmt.Errorf("answered: %w", err)
	}
	scribble(c.Last, c.Answered)
	return nil
}

// sameTurns compares two lists of turns.
func sameTurns(got, want []*checkpoint.Checkpoint) error {
	if len(got) != len(want) {
		return fmt.Errorf("turns %v, want %v", numbersOf(got), numbersOf(want))
	}
	for i := range got {
		if err := sameTurn(got[i], want[i]); err != nil {
			return err
		}
	}
	scribble(got...)
	return nil
}

func numbersOf(turns []*checkpoint.Checkpoint) []int {
	numbers := make([]int, len(turns))
	for i, cp := range turns {
		numbers[i] = cp.Turn
	}
	return numbers
}

// sameTurn compares got with the settled turn want, and remembers the time that the store gives.
func sameTurn(got, want *checkpoint.Checkpoint) error {
	if got == nil || want == nil {
		if got != want {
			return fmt.Errorf("got %+v, want %+v", got, want)
		}
		return nil
	}
	switch {
	case got.Turn != want.Turn, got.RunID != want.RunID, got.RequestID != want.RequestID,
		got.Signature != want.Signature, got.Version != want.Version, !slices.Equal(got.Route, want.Route):
		return fmt.Errorf("got %+v, want %+v", *got, *want)
	case !sameJSON(got.State, want.State):
		return fmt.Errorf("state of turn %d: %s, want %s", got.Turn, got.State, want.State)
	case !sameJSON(got.Payload, want.Payload):
		return fmt.Errorf("payload of turn %d: %s, want %s", got.Turn, got.Payload, want.Payload)
	}
	if want.SavedAt.IsZero() {
		want.SavedAt = got.SavedAt
	}
	if got.SavedAt.Location() != time.UTC || !got.SavedAt.After(bogusTime) || !got.SavedAt.Equal(want.SavedAt) {
		return fmt.Errorf("turn %d saved at %v, want %v and UTC", got.Turn, got.SavedAt, want.SavedAt)
	}
	return nil
}

// bogusTime is in every turn that a caller settles. A store must not believe it.
var bogusTime = time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)

// scribble overwrites the bytes that the caller of a store owns. The store must not notice.
func scribble(cps ...*checkpoint.Checkpoint) {
	for _, cp := range cps {
		if cp == nil {
			continue
		}
		for i := range cp.State {
			cp.State[i] = '#'
		}
		for i := range cp.Payload {
			cp.Payload[i] = '#'
		}
		for i := range cp.Route {
			cp.Route[i] = "#"
		}
	}
}

func sameJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
