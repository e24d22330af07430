package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// An Away says that one node of a cluster could not take a call. Other nodes may take theirs.
type Away struct {
	Node string
	Err  error
}

// Error names the node, and says why. It says the same each time: it does not show the port of the client.
func (a *Away) Error() string {
	why := a.Err.Error()
	if e, ok := errors.AsType[*net.OpError](a.Err); ok {
		why = e.Op + ": " + e.Err.Error()
	}
	return fmt.Sprintf("node %s: %s", a.Node, why)
}

// Unwrap returns Err.
func (a *Away) Unwrap() error { return a.Err }

// AwayFrom returns the *store.AwayError of a session, if err says that the session's node is away. After the end of ctx
// a node is not at fault, and AwayFrom returns err.
func AwayFrom(ctx context.Context, k store.Key, what string, err error) error {
	if _, is := errors.AsType[*Away](err); is && ctx.Err() == nil {
		return &store.AwayError{Key: k, What: what, Err: err}
	}
	return err
}

// IsAway reports whether err is about one session, whose node is away.
func IsAway(err error) bool {
	_, is := errors.AsType[*store.AwayError](err)
	return is
}

// Spared reports whether err is about one session only, of many that were looked at.
func Spared(err error) bool { return IsAway(err) || errors.Is(err, store.ErrDamaged) }

// errNoAnswer is the Err of a node that has not answered for the longest time that it may take.
var errNoAnswer = errors.New("no answer")

// longest is how long the nodes of a cluster may take: as long as the client waits for one answer. The client would
// repeat the request three times, and may not know the end of ctx.
func longest(cluster *redis.ClusterClient) time.Duration {
	if d := cluster.Options().ReadTimeout; d > 0 {
		return d
	}
	return 5 * time.Second // the client waits for ever
}

// A Tour makes calls that belong together, such as those of one listing. It calls a node that did not answer no second
// time.
type Tour struct {
	runner *Runner
	away   map[string]error
}

// Tour begins a Tour.
func (r *Runner) Tour() *Tour { return &Tour{r, make(map[string]error)} }

// RunAll is one call of Tour.RunAll.
func (r *Runner) RunAll(ctx context.Context, script *Lua, calls []Call, each func(i int, reply Reply, err error)) {
	r.Tour().RunAll(ctx, script, calls, each)
}

// RunAll runs script for every call, in one round trip to each node. It passes each result to each, in the order of the
// calls. If a node of a cluster takes no call, its calls get an *Away. On a cluster RunAll returns when ctx ends. A
// request to a node that has not answered by then ends when the client gives it up.
func (t *Tour) RunAll(ctx context.Context, script *Lua, calls []Call, each func(i int, reply Reply, err error)) {
	for i, a := range t.answers(ctx, script, calls) {
		each(i, a.reply, a.err)
	}
}

// An answer is the result of a Call.
type answer struct {
	reply Reply
	err   error
}

func (t *Tour) answers(ctx context.Context, script *Lua, calls []Call) []answer {
	if err := t.runner.fit(ctx); err != nil {
		return alike(len(calls), err)
	}
	cluster, ok := t.runner.Client.(*redis.ClusterClient)
	if !ok {
		return t.runner.ask(ctx, script, calls)
	}
	shares, err := divide(ctx, cluster, calls)
	if err != nil {
		return alike(len(calls), interrupted(ctx, err))
	}
	answers := make([]answer, len(calls))
	put := func(s *share, got []answer) {
		for i, at := range s.at {
			answers[at] = got[i]
		}
	}
	open := make(map[*share]bool)
	results := make(chan result, len(shares)) // a node that answers too late finds room
	for node, s := range shares {
		if err := t.away[node]; err != nil {
			put(s, alike(len(s.at), &Away{node, err}))
			continue
		}
		open[s] = true
		go func() { results <- result{s, t.runner.ask(ctx, script, s.calls)} }()
	}
	t.collect(ctx, longest(cluster), open, results, put)
	return answers
}

func alike(n int, err error) []answer {
	all := make([]answer, n)
	for i := range all {
		all[i].err = err
	}
	return all
}

// A share is the calls for one node, and where they are among all calls.
type share struct {
	node  string
	calls []Call
	at    []int
}

// A result is what a node says to its share.
type result struct {
	of  *share
	got []answer
}

// divide returns the shares by node.
func divide(ctx context.Context, cluster *redis.ClusterClient, calls []Call) (map[string]*share, error) {
	shares := make(map[string]*share)
	for i, c := range calls {
		master, err := cluster.MasterForKey(ctx, c.Keys[0])
		if err != nil {
			return nil, err
		}
		node := master.Options().Addr
		s := shares[node]
		if s == nil {
			s = &share{node: node}
			shares[node] = s
		}
		s.calls, s.at = append(s.calls, c), append(s.at, i)
	}
	return shares, nil
}

// collect puts the results of the open shares in their places. It gives up the nodes that take too long.
func (t *Tour) collect(
	ctx context.Context, patience time.Duration, open map[*share]bool, results <-chan result,
	put func(*share, []answer),
) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for len(open) > 0 {
		select {
		case r := <-results:
			delete(open, r.of)
			t.judge(r)
			put(r.of, r.got)
			continue
		case <-late.C:
		case <-ctx.Done():
		}
		for s := range open {
			t.away[s.node] = interrupted(ctx, errNoAnswer)
			put(s, alike(len(s.at), &Away{s.node, t.away[s.node]}))
		}
		return
	}
}

// judge turns errors that are no verdicts into an *Away. It notes a node that has answered nothing.
func (t *Tour) judge(r result) {
	var silent error
	answered := false
	for i, a := range r.got {
		if a.err == nil || t.runner.verdict(a.err) {
			answered = true
			continue
		}
		if _, said := errors.AsType[redis.Error](a.err); said {
			answered = true
		} else if silent == nil {
			silent = a.err
		}
		r.got[i].err = &Away{r.of.node, a.err}
	}
	if !answered {
		t.away[r.of.node] = silent
	}
}

// verdict reports whether err is what a script has said.
func (r *Runner) verdict(err error) bool {
	if _, ok := errors.AsType[*Fault](err); ok {
		return true
	}
	for _, v := range r.Verdicts {
		if v != nil && errors.Is(err, v) {
			return true
		}
	}
	return false
}
