package enginetest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A loan knows which lease of a session is the latest, so that a broken store can lend it out.
type loan struct {
	checkpoint.Store
	latest *sync.Map // by key
}

func newLoan(s *Stores) loan { return loan{s.Checkpoints, new(sync.Map)} }

func (s loan) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := s.Store.Claim(ctx, k, r)
	if err == nil {
		s.latest.Store(k, c.Lease)
	}
	return c, err
}

func (s loan) owner(k checkpoint.Key) checkpoint.Lease {
	l, _ := s.latest.Load(k)
	return l.(checkpoint.Lease)
}

// anyOwner lets a former owner settle a turn, as the next one.
type anyOwner struct{ loan }

func (s anyOwner) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions) error {
	if s.owner(l.Key) != l {
		c, err := s.Claim(ctx, l.Key, checkpoint.ClaimRequest{Owner: "thief", Nonce: rand.Text(), TTL: time.Minute, Steal: true})
		if err != nil {
			return err
		}
		l, cp.Turn, o.Release = c.Lease, 0, true
		if c.Last != nil {
			cp.Turn = c.Last.Turn + 1
		}
	}
	return s.Store.Append(ctx, l, cp, o)
}

// releasesAny releases the session, whoever has it.
type releasesAny struct{ loan }

func (s releasesAny) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if m.Release {
		l = s.owner(l.Key)
	}
	return s.Store.Mark(ctx, l, m)
}

// noRepeat does not find the run that it has appended.
type noRepeat struct{ checkpoint.Store }

func (s noRepeat) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions) error {
	for kept, err := range s.Turns(ctx, l.Key, checkpoint.Newest) {
		if err != nil {
			return err
		}
		if kept.RunID == cp.RunID {
			return lock.ErrFenced
		}
	}
	return s.Store.Append(ctx, l, cp, o)
}

// neverTells keeps to itself that a run was settled already.
type neverTells struct{ checkpoint.Store }

func (s neverTells) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions) error {
	o.Fresh = false
	return s.Store.Append(ctx, l, cp, o)
}

type owesNothing struct{ checkpoint.Store }

func (s owesNothing) Append(ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions) error {
	o.Owes = false
	return s.Store.Append(ctx, l, cp, o)
}

// appendsNothing releases only.
type appendsNothing struct{ checkpoint.Store }

func (s appendsNothing) Append(ctx context.Context, l checkpoint.Lease, _ checkpoint.Checkpoint, o checkpoint.AppendOptions) error {
	return s.Mark(ctx, l, checkpoint.Marks{Release: o.Release})
}

type noAnswer struct{ checkpoint.Store }

func (s noAnswer) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	r.RequestID = ""
	return s.Store.Claim(ctx, k, r)
}

// last is what sessions held at the claim before.
type last struct {
	sync.Mutex
	of map[checkpoint.Key]*checkpoint.Checkpoint
}

// staleClaim returns the last turn of the claim before.
type staleClaim struct {
	checkpoint.Store
	last *last
}

func (s staleClaim) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := s.Store.Claim(ctx, k, r)
	s.last.Lock()
	defer s.last.Unlock()
	if s.last.of == nil {
		s.last.of = make(map[checkpoint.Key]*checkpoint.Checkpoint)
	}
	c.Last, s.last.of[k] = s.last.of[k], c.Last
	return c, err
}

type marksNothing struct{ checkpoint.Store }

func (s marksNothing) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	return s.Store.Mark(ctx, l, checkpoint.Marks{Release: m.Release})
}

type deletesNothing struct{ checkpoint.Store }

func (s deletesNothing) Delete(ctx context.Context, k checkpoint.Key) error {
	c, err := s.Claim(ctx, k, checkpoint.ClaimRequest{Owner: "delete", Nonce: nonce(), TTL: hour, Steal: true})
	if err != nil {
		return err
	}
	return s.Mark(ctx, c.Lease, checkpoint.Marks{Release: true})
}

// current returns the run in flight.
func current(ctx context.Context, s snapshot.Store, k snapshot.Key) *snapshot.Run {
	for r, err := range s.Runs(ctx, snapshot.Query{Key: k}) {
		if err == nil {
			return &r
		}
	}
	return nil
}

// beginReplaces forgets the run in flight.
type beginReplaces struct{ snapshot.Store }

func (s beginReplaces) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	if old := current(ctx, s, r.Key); old != nil && old.ID != r.ID {
		if err := s.Delete(ctx, r.Key, old.ID, old.Fence); err != nil {
			return nil, err
		}
	}
	return s.Store.Begin(ctx, r)
}

// beginRepeats says of a run that is in flight already that it is recorded now, which it does.
type beginRepeats struct{ snapshot.Store }

func (s beginRepeats) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	if old := current(ctx, s, r.Key); old != nil && old.ID == r.ID {
		if err := s.Delete(ctx, r.Key, old.ID, old.Fence); err != nil {
			return nil, err
		}
	}
	return s.Store.Begin(ctx, r)
}

type adoptsNothing struct{ snapshot.Store }

func (s adoptsNothing) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, _ int) (snapshot.Run, error) {
	r := current(ctx, s, k)
	if r == nil {
		return snapshot.Run{}, snapshot.ErrNotFound
	}
	r.Fence = f
	return *r, nil
}

// adoptRevives makes a run that has ended one that runs.
type adoptRevives struct{ snapshot.Store }

func (s adoptRevives) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range s.Store.Runs(ctx, q) {
			r.Status = snapshot.Running
			if !yield(r, err) {
				return
			}
		}
	}
}

func (s adoptRevives) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	found, err := s.Store.Begin(ctx, r)
	if found != nil {
		found.Status = snapshot.Running
	}
	return found, err
}

func (s adoptRevives) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, most int) (snapshot.Run, error) {
	r, err := s.Store.Adopt(ctx, k, f, most)
	r.Status = snapshot.Running
	return r, err
}

// saveCreates records a run that is not in flight.
type saveCreates struct{ snapshot.Store }

func (s saveCreates) Save(ctx context.Context, r snapshot.Run) error {
	err := s.Store.Save(ctx, r)
	if errors.Is(err, lock.ErrFenced) && current(ctx, s, r.Key) == nil {
		_, err = s.Begin(ctx, r)
	}
	return err
}

// saveAny lets every owner save.
type saveAny struct{ snapshot.Store }

func (s saveAny) Save(ctx context.Context, r snapshot.Run) error {
	if now := current(ctx, s, r.Key); now != nil && now.ID == r.ID {
		r.Fence, r.Seq = now.Fence, now.Seq+1
	}
	return s.Store.Save(ctx, r)
}

// savesNothing loses what is saved with a status.
type savesNothing struct {
	snapshot.Store
	status snapshot.Status
}

func (s savesNothing) Save(ctx context.Context, r snapshot.Run) error {
	if r.Status == s.status {
		return nil
	}
	return s.Store.Save(ctx, r)
}

// savesHalf saves how far a run has come, and not its state.
type savesHalf struct{ snapshot.Store }

func (s savesHalf) Save(ctx context.Context, r snapshot.Run) error {
	now := current(ctx, s, r.Key)
	var before, after map[string]json.RawMessage
	if now != nil && json.Unmarshal(now.Payload, &before) == nil && json.Unmarshal(r.Payload, &after) == nil {
		after["state"] = before["state"]
		r.Payload, _ = json.Marshal(after)
	}
	return s.Store.Save(ctx, r)
}

// dropsAny deletes whatever is in flight.
type dropsAny struct{ snapshot.Store }

func (s dropsAny) Delete(ctx context.Context, k snapshot.Key, _ string, _ lock.Fence) error {
	r := current(ctx, s, k)
	if r == nil {
		return nil
	}
	return s.Store.Delete(ctx, k, r.ID, r.Fence)
}

type dropsNothing struct{ snapshot.Store }

func (s dropsNothing) Delete(context.Context, snapshot.Key, string, lock.Fence) error { return nil }

type hidesRuns struct{ snapshot.Store }

func (s hidesRuns) Runs(context.Context, snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(func(snapshot.Run, error) bool) {}
}
