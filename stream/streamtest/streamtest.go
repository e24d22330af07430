// Package streamtest holds implementations of [stream.Store] to their contract.
//
// The contract is a table of clauses. Each clause is a sentence, printed if it is broken, and a check that uses a fresh
// store:
//
//	func TestStore(t *testing.T) {
//		streamtest.Run(t, func(t *testing.T) stream.Store { return mystream.New(open(t), nil) })
//	}
//
// The package imports no driver. Its tests show that the clauses convict stores which break them.
package streamtest

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/stream"
)

// A clause is one sentence of the contract and a check that it holds.
type clause struct {
	name string
	// rule is printed on failure. It reads as a broken promise.
	rule  string
	check func(p *probe)
}

// Run checks every clause in its own subtest. newStore must return an empty store each time it is called, which keeps
// stream.DefaultKeep chunks.
func Run(t *testing.T, newStore func(t *testing.T) stream.Store) {
	contract().Run(t, newStore)
}

// RunPair checks every clause on two stores that share what they keep, as two processes do: the one appends and
// deletes, and the other reads. newStores must return empty stores each time it is called.
func RunPair(t *testing.T, newStores func(t *testing.T) (writer, reader stream.Store)) {
	contract().Run(t, func(t *testing.T) stream.Store {
		w, r := newStores(t)
		return pair{w, r}
	})
}

// A pair is a store whose readers are in another process than its writers.
type pair struct{ writer, reader stream.Store }

func (p pair) Append(
	ctx context.Context, k stream.Key, run string, epoch int64, s stream.Status, data []json.RawMessage,
) (int64, error) {
	return p.writer.Append(ctx, k, run, epoch, s, data)
}

func (p pair) Read(ctx context.Context, k stream.Key, seq int64) iter.Seq2[stream.Chunk, error] {
	return p.reader.Read(ctx, k, seq)
}

func (p pair) Last(ctx context.Context, k stream.Key) (int64, string, stream.Status, error) {
	return p.reader.Last(ctx, k)
}

func (p pair) Starts(ctx context.Context, k stream.Key) (map[string]int64, error) {
	return p.reader.Starts(ctx, k)
}

func (p pair) Delete(ctx context.Context, k stream.Key) error { return p.writer.Delete(ctx, k) }

// Violations runs the named clauses, or all if none is named. It returns the fault of each broken clause. It is for
// tests which show that a wrong store is convicted.
func Violations(ctx context.Context, newStore func() stream.Store, names ...string) map[string]error {
	return contract().Violations(ctx, newStore, names...)
}

func contract() suite.Clauses[stream.Store] {
	all := slices.Concat(appendClauses, raceClauses, limitClauses, readClauses, waitClauses, lifeClauses,
		slowClauses, keepClauses)
	return suite.Of(all, func(c clause) suite.Clause[stream.Store] {
		return suite.Clause[stream.Store]{
			Name: c.name, Rule: c.rule, Check: func(ctx context.Context, s stream.Store) error {
				c.check(&probe{ctx: ctx, store: s})
				return nil
			},
		}
	})
}

func fail(format string, args ...any) { suite.Fail(format, args...) }

func want(err, target error) { suite.Want(err, target) }

func ok(err error) { suite.OK(err) }
