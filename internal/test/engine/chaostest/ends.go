package chaostest

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// checkpoints is the checkpoint store as a process sees it. It copies requests before it sends them, because the engine
// may use their documents again while a copy is on its way.
type checkpoints struct{ *process }

func (s checkpoints) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	m := message{op: "Claim", session: k.Session, about: []any{lock.Fence{Nonce: r.Nonce}}}
	if r.From != (lock.Fence{}) {
		m.about, m.sharp = append(m.about, "from", r.From), true
	}
	return ask(ctx, s.process, m, func(ctx context.Context, c *call) (checkpoint.Claimed, error) {
		claimed, err := s.simulation.Checkpoints.Claim(ctx, k, r)
		if err == nil {
			s.simulation.granted(c, claimed)
		}
		return claimed, err
	})
}

func (s checkpoints) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) ([]checkpoint.Lease, error) {
	leases = slices.SortedFunc(slices.Values(leases), func(a, b checkpoint.Lease) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Fence.Epoch, b.Fence.Epoch))
	})
	m := message{op: "Renew", epoch: leases[0].Fence.Epoch}
	for _, l := range leases {
		m.about = append(m.about, l.Session, l.Fence)
	}
	return ask(ctx, s.process, m, func(ctx context.Context, _ *call) ([]checkpoint.Lease, error) {
		return s.simulation.Checkpoints.Renew(ctx, ttl, leases)
	})
}

func (s checkpoints) Held(ctx context.Context, orchestrator string, sessions []string) (map[string]string, error) {
	m := message{op: "Held", session: strings.Join(sessions, " "), read: true}
	return ask(ctx, s.process, m, func(ctx context.Context, _ *call) (map[string]string, error) {
		return s.simulation.Checkpoints.Held(ctx, orchestrator, sessions)
	})
}

func (s checkpoints) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	cp.State, cp.Payload, cp.Route = slices.Clone(cp.State), slices.Clone(cp.Payload), slices.Clone(cp.Route)
	m := message{op: "Append", session: l.Session, about: []any{l.Fence, "turn", cp.Turn, runName(cp.RunID)}}
	return tell(ctx, s.process, m, func(ctx context.Context, c *call) error {
		err := s.simulation.Checkpoints.Append(ctx, l, cp, o)
		if err == nil {
			s.simulation.settled(c, l, cp)
		}
		return err
	})
}

// Join settles by one message, unless the process or the stores need two.
func (s snapshots) Join(checkpoint.Store) snapshot.Settle {
	w := s.simulation
	runs, ok := w.Snapshots.(snapshot.Joiner)
	if !ok || !w.plan.joined[s.number%len(w.plan.joined)] {
		return nil
	}
	settle := runs.Join(w.Checkpoints)
	if settle == nil {
		return nil
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (bool, error) {
		cp.State, cp.Payload, cp.Route = slices.Clone(cp.State), slices.Clone(cp.Payload), slices.Clone(cp.Route)
		m := message{op: "Settle", session: l.Session, about: []any{l.Fence, "turn", cp.Turn, runName(cp.RunID)}}
		return ask(ctx, s.process, m, func(ctx context.Context, c *call) (bool, error) {
			forgotten, err := settle(ctx, l, cp, o)
			if err == nil {
				w.settled(c, l, cp)
			}
			return forgotten, err
		})
	}
}

func (s checkpoints) Mark(ctx context.Context, l checkpoint.Lease, mk checkpoint.Marks) error {
	m := message{op: "Mark", session: l.Session, about: []any{l.Fence, marksName(mk)}}
	return tell(ctx, s.process, m, func(ctx context.Context, _ *call) error {
		err := s.simulation.Checkpoints.Mark(ctx, l, mk)
		if err == nil {
			s.simulation.marked(l, mk)
		}
		return err
	})
}

func (s checkpoints) Delete(ctx context.Context, l checkpoint.Lease) error {
	m := message{op: "Remove", session: l.Session, sharp: true, about: []any{l.Fence}}
	return tell(ctx, s.process, m, func(ctx context.Context, c *call) error {
		err := s.simulation.Checkpoints.Delete(ctx, l)
		s.simulation.removed(c, l.Session)
		return err
	})
}

// pageOfTurns is the number of turns in one reply to a reader. A turn that settles between two pages must not confuse
// the reader.
const pageOfTurns = 3

func (s checkpoints) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		for {
			page, err := s.page(ctx, k, from)
			if err != nil {
				yield(checkpoint.Checkpoint{}, err)
				return
			}
			for _, cp := range page {
				if !yield(cp, nil) {
					return
				}
				from = cp.Turn - 1
			}
			if len(page) < pageOfTurns || from < 0 {
				return
			}
		}
	}
}

func (s checkpoints) page(ctx context.Context, k checkpoint.Key, from int) ([]checkpoint.Checkpoint, error) {
	m := message{op: "Turns", session: k.Session, read: true, about: []any{"from", from}}
	return ask(ctx, s.process, m, func(ctx context.Context, _ *call) (page []checkpoint.Checkpoint, err error) {
		for cp, err := range s.simulation.Checkpoints.Turns(ctx, k, from) {
			if err != nil {
				return nil, err
			}
			if page = append(page, cp); len(page) == pageOfTurns {
				break
			}
		}
		return page, nil
	})
}

func (s checkpoints) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	m := message{op: "Sessions", session: q.Prefix, read: true}
	return listed(ctx, s.process, m, func(ctx context.Context) iter.Seq2[string, error] {
		return s.simulation.Checkpoints.Sessions(ctx, q)
	})
}

// snapshots is the snapshot store as a process sees it.
type snapshots struct{ *process }

func (s snapshots) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	r = cloned(r)
	m := message{op: "Begin", session: r.Session, sharp: true, about: []any{r.Fence, runName(r.ID)}}
	return ask(ctx, s.process, m, func(ctx context.Context, _ *call) (*snapshot.Run, error) {
		return s.simulation.Snapshots.Begin(ctx, cloned(r))
	})
}

func (s snapshots) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	m := message{op: "Adopt", session: k.Session, about: []any{f}}
	return ask(ctx, s.process, m, func(ctx context.Context, _ *call) (snapshot.Run, error) {
		return s.simulation.Snapshots.Adopt(ctx, k, f, maxAttempts)
	})
}

func (s snapshots) Save(ctx context.Context, r snapshot.Run) error {
	r = cloned(r)
	m := message{op: "Save", session: r.Session, about: []any{r.Fence, runName(r.ID), r.Seq, r.Status}}
	return tell(ctx, s.process, m, func(ctx context.Context, _ *call) error {
		return s.simulation.Snapshots.Save(ctx, cloned(r))
	})
}

func (s snapshots) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	m := message{op: "Delete", session: k.Session, about: []any{f, runName(id)}}
	return tell(ctx, s.process, m, func(ctx context.Context, _ *call) error {
		return s.simulation.Snapshots.Delete(ctx, k, id, f)
	})
}

func (s snapshots) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	m := message{op: "Runs", session: q.Session, read: true}
	return listed(ctx, s.process, m, func(ctx context.Context) iter.Seq2[snapshot.Run, error] {
		return s.simulation.Snapshots.Runs(ctx, q)
	})
}

// listed asks for a whole list in one request, when the caller begins to read the list.
func listed[T any](
	ctx context.Context, p *process, m message, list func(context.Context) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := ask(ctx, p, m, func(ctx context.Context, _ *call) (all []T, err error) {
			for one, err := range list(ctx) {
				if err != nil {
					return nil, err
				}
				all = append(all, one)
			}
			return all, nil
		})
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
	}
}

func cloned(r snapshot.Run) snapshot.Run {
	r.Payload, r.Parts = slices.Clone(r.Payload), maps.Clone(r.Parts)
	for name, doc := range r.Parts {
		r.Parts[name] = slices.Clone(doc)
	}
	return r
}
