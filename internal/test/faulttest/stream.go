package faulttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/stream"
)

// StreamModel compares a stream store with stream.Memory by random histories: owners of several epochs append, readers
// begin anywhere, and sessions are deleted. It stops like [CheckpointModel]. The store keeps keep chunks of a session.
func StreamModel(t *testing.T, keep int, newStore func(*testing.T) stream.Store) {
	t.Helper()
	checkWithin(t, func(rt *rapid.T) {
		p := streams{newStore(t), &stream.Memory{Keep: keep}, make(map[stream.Key]owner)}
		follow(rt, p.call, func(context.Context) error { return nil })
	})
}

// streams are a store and the reference store.
type streams struct {
	store, model stream.Store

	// owners are who may append.
	owners map[stream.Key]owner
}

type owner struct {
	run   string
	epoch int64
}

var (
	streamCalls    = rapid.SampledFrom(strings.Fields("append append append append read read last starts delete"))
	streamSessions = rapid.SampledFrom([]string{"a", "b", "{a}", "😀"})
	streamRuns     = rapid.SampledFrom([]string{"r1", "r2"})
	streamStatuses = rapid.SampledFrom([]stream.Status{
		stream.Active, stream.Active, stream.Paused, stream.Ended, stream.Failed,
	})
)

func (p streams) call(ctx context.Context, t *rapid.T) error {
	k := stream.Key{Orchestrator: "bot", Session: streamSessions.Draw(t, "session")}
	what := streamCalls.Draw(t, "what")
	switch what {
	case "append":
		run, status := streamRuns.Draw(t, "run"), streamStatuses.Draw(t, "status")
		epoch := rapid.Int64Range(1, 4).Draw(t, "epoch")
		var data []json.RawMessage
		for range rapid.IntRange(0, 5).Draw(t, "chunks") {
			data = append(data, drawDocument(t))
		}
		if epoch >= p.owners[k].epoch {
			p.owners[k] = owner{run, epoch}
		}
		got, err := p.store.Append(ctx, k, run, epoch, status, data)
		want, wantErr := p.model.Append(ctx, k, run, epoch, status, data)
		if got != want {
			return fmt.Errorf("the last number is %d, want %d", got, want)
		}
		return sameVerdict(what, err, wantErr)
	case "delete":
		delete(p.owners, k)
		return sameVerdict(what, p.store.Delete(ctx, k), p.model.Delete(ctx, k))
	case "starts":
		got, err := p.store.Starts(ctx, k)
		want, wantErr := p.model.Starts(ctx, k)
		if !maps.Equal(got, want) {
			return fmt.Errorf("the runs start at %v, want %v", got, want)
		}
		return sameVerdict(what, err, wantErr)
	case "read":
		return p.sameRead(ctx, k, rapid.Int64Range(stream.Newest, 30).Draw(t, "after"))
	}
	got, run, status, err := p.store.Last(ctx, k)
	want, wantRun, wantStatus, wantErr := p.model.Last(ctx, k)
	if got != want || run != wantRun || status != wantStatus {
		return fmt.Errorf("last is %d of %q, %s, want %d of %q, %s", got, run, status, want, wantRun, wantStatus)
	}
	return sameVerdict(what, err, wantErr)
}

// sameRead compares what a reader gets. If it would wait at the end, the session is paused before.
func (p streams) sameRead(ctx context.Context, k stream.Key, seq int64) error {
	if o, ok := p.owners[k]; ok {
		_, err := p.store.Append(ctx, k, o.run, o.epoch, stream.Paused, nil)
		_, wantErr := p.model.Append(ctx, k, o.run, o.epoch, stream.Paused, nil)
		if err := errors.Join(err, wantErr); err != nil {
			return err
		}
	}
	got, err := shown(p.store.Read(ctx, k, seq))
	want, wantErr := shown(p.model.Read(ctx, k, seq))
	if !slices.Equal(got, want) || errors.Is(err, stream.ErrGone) != errors.Is(wantErr, stream.ErrGone) ||
		(err == nil) != (wantErr == nil) {
		return fmt.Errorf("read after %d: %q, %w, want %q, %w", seq, got, err, want, wantErr)
	}
	return nil
}

func shown(chunks iter.Seq2[stream.Chunk, error]) (all []string, err error) {
	for c, err := range chunks {
		if err != nil {
			return all, err
		}
		doc, err := jsonvalue.Canonical(c.Data)
		if err != nil {
			return all, err
		}
		all = append(all, fmt.Sprint(c.Seq, " ", c.Run, " ", string(doc)))
	}
	return all, nil
}
