package faulttest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/stream"
)

func TestMemoryStream(t *testing.T) {
	StreamModel(t, 8, func(*testing.T) stream.Store { return &stream.Memory{Keep: 8} })
}

// Random calls convict a store that differs from the model.
func TestStreamModelConvicts(t *testing.T) {
	for name, broken := range map[string]func() stream.Store{
		"more chunks are kept":   func() stream.Store { return &stream.Memory{Keep: 9} },
		"Delete does nothing":    func() stream.Store { return undeleted{&stream.Memory{Keep: 8}} },
		"a status ends no epoch": func() stream.Store { return statusOfAll{&stream.Memory{Keep: 8}} },
	} {
		t.Run(name, func(t *testing.T) {
			p := streams{broken(), &stream.Memory{Keep: 8}, make(map[stream.Key]owner)}
			if err := scripted(t.Context(), p); err == nil {
				t.Error("it follows the model")
			}
		})
	}
}

// scripted makes the calls of one history.
func scripted(ctx context.Context, p streams) error {
	k := stream.Key{Orchestrator: "bot", Session: "a"}
	var errs []error
	for n := range 60 {
		epoch := int64(2 - n%2)
		data := []json.RawMessage{json.RawMessage("1")}
		status := stream.Paused
		if epoch == 1 {
			data, status = nil, stream.Failed
		}
		p.owners[k] = owner{"r", 2}
		_, err := p.store.Append(ctx, k, "r", epoch, status, data)
		_, wantErr := p.model.Append(ctx, k, "r", epoch, status, data)
		_, _, got, lastErr := p.store.Last(ctx, k)
		_, _, want, wantLast := p.model.Last(ctx, k)
		if got != want {
			errs = append(errs, errors.New("another status"))
		}
		errs = append(errs, err, wantErr, lastErr, wantLast, p.sameRead(ctx, k, int64(max(0, n/2-8))))
	}
	return errors.Join(append(errs, p.store.Delete(ctx, k), p.model.Delete(ctx, k), p.sameRead(ctx, k, 0))...)
}

type undeleted struct{ *stream.Memory }

func (undeleted) Delete(context.Context, stream.Key) error { return nil }

// statusOfAll takes the status of a former owner.
type statusOfAll struct{ *stream.Memory }

func (b statusOfAll) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	return b.Memory.Append(ctx, k, run, max(epoch, 2), s, data)
}
