package bootdrain_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A tenant is a role that the policies of docs/security.md keep to its own sessions.
type tenant struct {
	name        string
	checkpoints *pgcheckpoint.Store
	snapshots   *pgsnapshot.Store
	bot         *orchestrator.Orchestrator[fanned]
}

func (g *guarded) tenant(t *testing.T, name string) tenant {
	t.Helper()
	p := openPool(t, g.as(name))
	n := tenant{name: name, checkpoints: pgcheckpoint.New(p, nil), snapshots: pgsnapshot.New(p, nil)}
	var err error
	if n.bot, err = fanning(n.checkpoints, n.snapshots, nil); err != nil {
		t.Fatal(err)
	}
	return n
}

func newTenants(t *testing.T) (g *guarded, acme, globex tenant) {
	g = newGuarded(t)
	roles := ofSecurity(t, "CREATE ROLE acme")
	group, member, _ := strings.Cut(roles, "CREATE ROLE acme")
	runSQL(t, g.admin, group)
	for _, name := range []string{"acme", "globex"} {
		runSQL(t, g.admin, strings.ReplaceAll("CREATE ROLE acme"+member, "acme", name))
	}
	runSQL(t, g.owner, ofSecurity(t, "GRANT USAGE ON SCHEMA holdfast TO holdfast_service"))
	runSQL(t, g.owner, ofSecurity(t, "CREATE POLICY"))
	return g, g.tenant(t, "acme"), g.tenant(t, "globex")
}

// Of the sessions of another, a tenant can claim, read and change none, and none is taken for new.
func TestTenants(t *testing.T) {
	g, acme, globex := newTenants(t)
	for _, n := range []tenant{acme, globex} {
		n.live(t, n.name+"/a")
	}
	k := checkpoint.Key{Orchestrator: "bot", Session: "globex/a"}
	request := checkpoint.ClaimRequest{Owner: "g", Nonce: "g", TTL: time.Minute}
	c, err := globex.checkpoints.Claim(t.Context(), k, request)
	if err != nil {
		t.Fatal(err)
	}
	run := snapshot.Run{
		Key: k, ID: "r", Status: snapshot.Running, Seq: 1, Attempt: 1, Fence: c.Fence,
		Payload: []byte(`{"v":0}`),
	}
	if _, err := globex.snapshots.Begin(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	acme.wantNoClaim(t, "globex/a")
	acme.wantNoClaim(t, "globex/not yet")
	acme.wantNoClaim(t, "a")
	acme.wantNothing(t, c, run)
	acme.wantSees(t, "acme/a")
	globex.wantSees(t, "globex/a")
	service := g.tenant(t, "holdfast_service")
	service.wantSees(t, "acme/a", "globex/a")
	if _, err := service.checkpoints.Sweep(t.Context(), 1); err != nil {
		t.Errorf("the service does not sweep: %v", err)
	}
	if runs := slices.Collect(service.runs(t)); !slices.Equal(runs, []string{"globex/a"}) {
		t.Errorf("after all this the runs are %q", runs)
	}
}

// live makes turns, repeats one, and drains a run that another process left.
func (n tenant) live(t *testing.T, session string) {
	t.Helper()
	in := orchestrator.Input{Text: "hello", RequestID: "r"}
	for i := range 4 {
		res, err := n.bot.Execute(t.Context(), session, in, nil)
		if err != nil || res.Replayed != (i == 1) {
			t.Fatalf("%s, turn %d: %+v, %v", n.name, i, res, err)
		}
		if i > 0 {
			in = orchestrator.Input{Text: "again"}
		}
	}
	report, err := bootdrain.DrainInterrupted(t.Context(), n.bot, nil)
	if err != nil || report.Failed > 0 {
		t.Errorf("%s drains: %+v, %v", n.name, report, err)
	}
}

func (n tenant) wantNoClaim(t *testing.T, session string) {
	t.Helper()
	k := checkpoint.Key{Orchestrator: "bot", Session: session}
	_, err := n.checkpoints.Claim(t.Context(), k, checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Minute})
	if !errors.Is(err, checkpoint.ErrRefused) || !strings.Contains(err.Error(), "row-level security") {
		t.Errorf("%s claims %s: %v, want %v", n.name, session, err, checkpoint.ErrRefused)
	}
	_, err = n.bot.Execute(t.Context(), session, orchestrator.Input{Text: "hello"}, nil)
	if !errors.Is(err, checkpoint.ErrRefused) || errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Errorf("%s sends input to %s: %v, want %v", n.name, session, err, checkpoint.ErrRefused)
	}
}

// wantNothing tries what can be tried with the lease of another tenant, and its run.
func (n tenant) wantNothing(t *testing.T, c checkpoint.Claimed, run snapshot.Run) {
	t.Helper()
	ctx := t.Context()
	next := c.Last.Turn + 1
	cp := checkpoint.Checkpoint{Turn: next, State: []byte(`{}`), RunID: "stolen"}
	run.Seq++
	for what, err := range map[string]error{
		"Append": n.checkpoints.Append(ctx, c.Lease, cp, checkpoint.AppendOptions{}),
		"Mark":   n.checkpoints.Mark(ctx, c.Lease, checkpoint.Marks{Summarized: 1}),
		"Save":   n.snapshots.Save(ctx, run),
	} {
		if !errors.Is(err, lock.ErrFenced) && !errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	later := lock.Fence{Epoch: run.Fence.Epoch + 1, Nonce: "later"}
	_, adopted := n.snapshots.Adopt(ctx, run.Key, later, 5)
	begun := run
	begun.Fence = later
	_, began := n.snapshots.Begin(ctx, begun)
	for what, err := range map[string]error{"Adopt": adopted, "Begin": began} {
		if !errors.Is(err, snapshot.ErrRefused) {
			t.Errorf("%s: %v, want %v", what, err, snapshot.ErrRefused)
		}
	}
	if lost, err := n.checkpoints.Renew(ctx, time.Hour, []checkpoint.Lease{c.Lease}); err != nil || len(lost) != 1 {
		t.Errorf("Renew loses %v, %v", lost, err)
	}
	if err := n.checkpoints.Delete(ctx, c.Lease); err != nil {
		t.Errorf("Delete: %v", err)
	}
	_ = n.snapshots.Delete(ctx, run.Key, run.ID, run.Fence)
	if held, err := n.checkpoints.Held(ctx, "bot", []string{c.Session}); err != nil || len(held) > 0 {
		t.Errorf("Held: %q, %v", held, err)
	}
	for cp, err := range n.checkpoints.Turns(ctx, c.Key, checkpoint.Newest) {
		t.Errorf("turn %d is read, or fails: %v", cp.Turn, err)
	}
	if runs := slices.Collect(n.runs(t)); len(runs) > 0 {
		t.Errorf("the runs of %q are listed", runs)
	}
	if _, err := n.checkpoints.Sweep(ctx, 1); !errors.Is(err, checkpoint.ErrRefused) {
		t.Errorf("Sweep: %v, want %v", err, checkpoint.ErrRefused)
	}
	if _, err := n.checkpoints.Watch(ctx, "bot", "v1", "p", time.Minute); !errors.Is(err, checkpoint.ErrRefused) {
		t.Errorf("Watch: %v, want %v", err, checkpoint.ErrRefused)
	}
	if _, err := n.checkpoints.Beat(ctx, "p"); !errors.Is(err, checkpoint.ErrRefused) {
		t.Errorf("Beat: %v, want %v", err, checkpoint.ErrRefused)
	}
}

// wantSees checks which sessions are listed, and that their turns are all there.
func (n tenant) wantSees(t *testing.T, want ...string) {
	t.Helper()
	var all []string
	for session, err := range n.checkpoints.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: "bot"}) {
		if err != nil {
			t.Fatal(err)
		}
		k := checkpoint.Key{Orchestrator: "bot", Session: session}
		cp, err := checkpoint.Load(t.Context(), n.checkpoints, k, checkpoint.Newest)
		if err != nil || cp.Turn != 2 {
			t.Errorf("%s has turn %d, %v", session, cp.Turn, err)
		}
		all = append(all, session)
	}
	if !slices.Equal(all, want) {
		t.Errorf("%s sees %q, want %q", n.name, all, want)
	}
}

func (n tenant) runs(t *testing.T) func(func(string) bool) {
	return func(yield func(string) bool) {
		for r, err := range n.snapshots.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: "bot"}}) {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(r.Session) {
				return
			}
		}
	}
}
