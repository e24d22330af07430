package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A loan knows the latest lease of each session, so that a broken store can use that lease.
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

// steal takes a session, whether it has an owner or not.
func (s loan) steal(ctx context.Context, k checkpoint.Key) (checkpoint.Claimed, error) {
	r := checkpoint.ClaimRequest{Owner: "thief", Nonce: nonce(), TTL: time.Minute, From: s.owner(k).Fence}
	c, err := s.Claim(ctx, k, r)
	if errors.Is(err, lock.ErrHeld) {
		r.From = lock.Fence{}
		c, err = s.Claim(ctx, k, r)
	}
	return c, err
}

// anyOwner lets a former owner settle a turn, as the next turn.
type anyOwner struct{ loan }

func (s anyOwner) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	if s.owner(l.Key) != l {
		c, err := s.steal(ctx, l.Key)
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

// fromAny takes the session from any owner, although the claim names a fence.
type fromAny struct{ loan }

func (s fromAny) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := s.loan.Claim(ctx, k, r)
	held, ok := errors.AsType[*checkpoint.HeldError](err)
	if ok && r.From != (lock.Fence{}) {
		r.From = held.Fence
		c, err = s.loan.Claim(ctx, k, r)
	}
	return c, err
}

// sameFence answers a claim by the owner from itself with the owner's old fence.
type sameFence struct{ loan }

func (s sameFence) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if r.Owner != undertaker && r.From != (lock.Fence{}) && r.From == s.owner(k).Fence {
		r.Nonce = r.From.Nonce
	}
	return s.loan.Claim(ctx, k, r)
}

// deletesAny deletes the session under any owner.
type deletesAny struct{ loan }

func (s deletesAny) Delete(ctx context.Context, l checkpoint.Lease) error {
	err := s.Store.Delete(ctx, l)
	if !errors.Is(err, lock.ErrFenced) {
		return err
	}
	c, err := s.steal(ctx, l.Key)
	if err != nil {
		return err
	}
	return s.Store.Delete(ctx, c.Lease)
}

// releasesAny releases the session of any owner.
type releasesAny struct{ loan }

func (s releasesAny) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if m.Release {
		l = s.owner(l.Key)
	}
	return s.Store.Mark(ctx, l, m)
}

// noRepeat does not recognize the repeat of an Append.
type noRepeat struct{ checkpoint.Store }

func (s noRepeat) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
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

// neverTells hides that a run was settled already.
type neverTells struct{ checkpoint.Store }

func (s neverTells) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	o.Fresh = false
	return s.Store.Append(ctx, l, cp, o)
}

type owesNothing struct{ checkpoint.Store }

func (s owesNothing) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	o.Owes = false
	return s.Store.Append(ctx, l, cp, o)
}

// appendsNothing only releases.
type appendsNothing struct{ checkpoint.Store }

func (s appendsNothing) Append(
	ctx context.Context, l checkpoint.Lease, _ checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	return s.Mark(ctx, l, checkpoint.Marks{Release: o.Release})
}

type noAnswer struct{ checkpoint.Store }

func (s noAnswer) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	r.RequestID = ""
	return s.Store.Claim(ctx, k, r)
}

// last remembers the answer to the previous claim of each session.
type last struct {
	sync.Mutex
	of map[checkpoint.Key]*checkpoint.Checkpoint
}

// staleClaim returns the last turn that the previous claim returned.
type staleClaim struct {
	checkpoint.Store
	last *last
}

func (s staleClaim) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
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

func (s deletesNothing) Delete(ctx context.Context, l checkpoint.Lease) error {
	return s.Mark(ctx, l, checkpoint.Marks{Release: true})
}

// current returns the run in flight, without its parts.
func current(ctx context.Context, s snapshot.Store, k snapshot.Key) *snapshot.Run {
	for r, err := range s.Runs(ctx, snapshot.Query{Key: k}) {
		if err == nil {
			return &r
		}
	}
	return nil
}

// forgets keeps no data of a session whose run is deleted. Each run has a store of its own.
type forgets struct {
	mu   sync.Mutex // protects following field
	runs map[snapshot.Key]*snapshot.Memory
}

func newForgets() *forgets { return &forgets{runs: make(map[snapshot.Key]*snapshot.Memory)} }

func (s *forgets) of(k snapshot.Key) *snapshot.Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[k] == nil {
		s.runs[k] = new(snapshot.Memory)
	}
	return s.runs[k]
}

func (s *forgets) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	return s.of(r.Key).Begin(ctx, r)
}

func (s *forgets) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, most int) (snapshot.Run, error) {
	return s.of(k).Adopt(ctx, k, f, most)
}

func (s *forgets) Save(ctx context.Context, r snapshot.Run) error { return s.of(r.Key).Save(ctx, r) }

func (s *forgets) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	m := s.of(k)
	if err := m.Delete(ctx, k, id, f); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[k] == m && current(ctx, m, k) == nil {
		delete(s.runs, k)
	}
	return nil
}

func (s *forgets) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	k := q.Key
	k.Session = session // this store has only it
	return s.of(k).Runs(ctx, q)
}

// beginsAgain keeps the fence that deleted a run, and then lets a run begin under that fence.
type beginsAgain struct {
	*forgets
	kept *atomic.Int64
}

func (s beginsAgain) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	err := s.forgets.Delete(ctx, k, id, f)
	if err == nil {
		s.kept.Store(max(s.kept.Load(), f.Epoch))
	}
	return err
}

func (s beginsAgain) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	if r.Fence.Epoch < s.kept.Load() && current(ctx, s, r.Key) == nil {
		return nil, lock.ErrFenced
	}
	return s.forgets.Begin(ctx, r)
}

// beginReplaces replaces the run in flight, and forgets every fence that is higher than the new one.
type beginReplaces struct{ snapshot.Store }

func (s beginReplaces) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	if old := current(ctx, s, r.Key); old != nil && old.ID != r.ID {
		if err := s.Delete(ctx, r.Key, old.ID, old.Fence); err != nil {
			return nil, err
		}
	}
	return s.Store.Begin(ctx, r)
}

// beginRepeats writes a run that is in flight already, and says that the run is new.
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
	now := current(ctx, s, k)
	if now == nil {
		return snapshot.Run{}, snapshot.ErrNotFound
	}
	r, err := s.Store.Adopt(ctx, k, now.Fence, 0)
	r.Fence = f
	return r, err
}

// adoptsUnkept forgets the fence of a session without a run.
type adoptsUnkept struct{ snapshot.Store }

func (s adoptsUnkept) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, most int) (snapshot.Run, error) {
	if current(ctx, s, k) == nil {
		return snapshot.Run{}, snapshot.ErrNotFound
	}
	return s.Store.Adopt(ctx, k, f, most)
}

// adoptsWithout returns a run without its parts.
type adoptsWithout struct{ snapshot.Store }

func (s adoptsWithout) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, most int) (snapshot.Run, error) {
	r, err := s.Store.Adopt(ctx, k, f, most)
	r.Parts = nil
	return r, err
}

// adoptRevives makes an ended run a running one.
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

// saveCreates writes a run that is not in flight.
type saveCreates struct {
	snapshot.Store
	// payloads are the payloads with which runs began, by id.
	payloads *sync.Map
}

func (s saveCreates) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	s.payloads.Store(r.ID, r.Payload)
	return s.Store.Begin(ctx, r)
}

func (s saveCreates) Save(ctx context.Context, r snapshot.Run) error {
	err := s.Store.Save(ctx, r)
	if errors.Is(err, lock.ErrFenced) && current(ctx, s, r.Key) == nil {
		if before, ok := s.payloads.Load(r.ID); ok && r.Payload == nil {
			r.Payload = before.(json.RawMessage)
		}
		_, err = s.Store.Begin(ctx, r)
	}
	return err
}

// saveEmpties removes the payload if a save has none.
type saveEmpties struct{ snapshot.Store }

func (s saveEmpties) Save(ctx context.Context, r snapshot.Run) error {
	if r.Payload == nil {
		r.Payload = json.RawMessage("{}")
	}
	return s.Store.Save(ctx, r)
}

// saveReplaces replaces the parts of a run by the parts of a save without a payload.
type saveReplaces struct{ snapshot.Store }

func (s saveReplaces) Save(ctx context.Context, r snapshot.Run) error {
	if now := current(ctx, s, r.Key); r.Payload == nil && now != nil && now.ID == r.ID {
		r.Payload = now.Payload
	}
	return s.Store.Save(ctx, r)
}

// saveLosesParts saves all but the parts.
type saveLosesParts struct{ snapshot.Store }

func (s saveLosesParts) Save(ctx context.Context, r snapshot.Run) error {
	r.Parts = nil
	return s.Store.Save(ctx, r)
}

// saveLosesItems saves a decision without its items.
type saveLosesItems struct{ snapshot.Store }

func (s saveLosesItems) Save(ctx context.Context, r snapshot.Run) error {
	r.Parts = maps.Clone(r.Parts)
	delete(r.Parts, "items")
	return s.Store.Save(ctx, r)
}

// saveAddsParts keeps the parts of a run when a save replaces its payload.
type saveAddsParts struct{ snapshot.Store }

func (s saveAddsParts) Save(ctx context.Context, r snapshot.Run) error {
	if now := current(ctx, s, r.Key); r.Payload != nil && now != nil && now.ID == r.ID {
		before, err := s.Adopt(ctx, r.Key, now.Fence, 0)
		if err != nil {
			return err
		}
		for name, doc := range r.Parts {
			before.Parts[name] = doc
		}
		r.Parts = before.Parts
	}
	return s.Store.Save(ctx, r)
}

// saveAny lets every owner save.
type saveAny struct{ snapshot.Store }

func (s saveAny) Save(ctx context.Context, r snapshot.Run) error {
	if now := current(ctx, s, r.Key); now != nil && now.ID == r.ID {
		r.Fence, r.Seq = now.Fence, now.Seq+1
	}
	return s.Store.Save(ctx, r)
}

// savesNothing loses each save with a certain status.
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

// savesHalf saves the progress of a run, but not its state.
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

// dropsAny deletes any run in flight.
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
