package bootdrain_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/postgres/pgtranscript"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An asynchronous standby is promoted. It lacks an acknowledged turn, a payment that was completed, and the claim that
// fenced off the former owner. That owner settles and pays again, unless all owners were ended by Raise.
func TestPromotedAsynchronous(t *testing.T) {
	r := testenv.StartReplicated(t, false, nil)
	remedies := []struct {
		prefix    string
		comesBack bool
		remedy    func(*fencedOff) error
	}{
		{"none_", true, func(*fencedOff) error { return nil }},
		{"stores_", false, func(f *fencedOff) error {
			runs, first := f.snapshots.Raise(t.Context(), time.Now())
			sessions, second := f.checkpoints.Raise(t.Context(), time.Now())
			effects, third := f.ledger.Raise(t.Context(), time.Now())
			if runs != 1 || sessions != 1 || effects != 1 {
				t.Errorf("raised %d runs, %d sessions and %d effects, want 1 of each", runs, sessions, effects)
			}
			return errors.Join(first, second, third)
		}},
		{"holdfast_", false, func(f *fencedOff) error {
			_, err := f.pool.Exec(t.Context(), ofOperations(t))
			return err
		}},
	}
	var all []*fencedOff
	for _, c := range remedies {
		f := newFencedOff(t, r.URL, c.prefix)
		f.begin(t)
		all = append(all, f)
	}
	r.CatchUp()
	r.StopSending()
	for _, f := range all {
		f.takeOver(t)
	}
	promoted := r.Failover()
	for i, c := range remedies {
		f := all[i]
		f.open(t, promoted.URL)
		if err := c.remedy(f); err != nil {
			t.Fatalf("%s: %v", c.prefix, err)
		}
		f.judge(t, c.comesBack)
	}
}

// ofOperations returns the remedy that docs/operations.md gives to an operator.
func ofOperations(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "```sql\nBEGIN;")
	sql, _, ended := strings.Cut(after, "```")
	if !found || !ended {
		t.Fatal("docs/operations.md has no statements for after a promotion")
	}
	return "BEGIN;" + sql
}

// fencedOff is a session whose owner was fenced off.
type fencedOff struct {
	prefix      string
	pool        *pgxpool.Pool
	checkpoints *pgcheckpoint.Store
	snapshots   *pgsnapshot.Store
	ledger      *pgledger.Ledger
	former      checkpoint.Lease
	run         snapshot.Run
}

func newFencedOff(t *testing.T, url, prefix string) *fencedOff {
	f := &fencedOff{prefix: prefix}
	f.open(t, url)
	if _, err := f.pool.Exec(t.Context(), f.checkpoints.Schema()+f.snapshots.Schema()+f.ledger.Schema()+
		pgtranscript.New(f.pool, &pgtranscript.Options{Prefix: prefix}).Schema()); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fencedOff) open(t *testing.T, url string) {
	t.Helper()
	var err error
	if f.pool, err = pgxpool.New(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.pool.Close)
	f.checkpoints = pgcheckpoint.New(f.pool, &pgcheckpoint.Options{Prefix: f.prefix})
	f.snapshots = pgsnapshot.New(f.pool, &pgsnapshot.Options{Prefix: f.prefix})
	f.ledger = pgledger.New(f.pool, &pgledger.Options{Prefix: f.prefix})
}

func (f *fencedOff) claim(ctx context.Context, nonce string, from lock.Fence) (checkpoint.Claimed, error) {
	k := checkpoint.Key{Orchestrator: "bot", Session: "s"}
	return f.checkpoints.Claim(ctx, k, checkpoint.ClaimRequest{Owner: nonce, Nonce: nonce, TTL: time.Hour, From: from})
}

func (f *fencedOff) settle(ctx context.Context, l checkpoint.Lease, run string) error {
	cp := checkpoint.Checkpoint{RunID: run, State: json.RawMessage(`{}`)}
	return f.checkpoints.Append(ctx, l, cp, checkpoint.AppendOptions{})
}

// issue asks to pay for the order, or for another one, once in the world.
func (f *fencedOff) issue(ctx context.Context, order string, by lock.Fence) (ledger.Effect, bool, error) {
	return f.ledger.Issue(ctx, ledger.Effect{
		ID: order, Orchestrator: "bot", Session: "s", RunID: f.run.ID, Name: "pay", Key: order, Fence: by,
	}, false)
}

// begin claims the session for the former owner.
func (f *fencedOff) begin(t *testing.T) {
	t.Helper()
	c, err := f.claim(t.Context(), "former", lock.Fence{})
	if err != nil {
		t.Fatal(err)
	}
	f.former = c.Lease
	f.run = snapshot.Run{
		Key: c.Key, ID: "run", Attempt: 1, Status: snapshot.Running, Fence: c.Fence,
		Payload: json.RawMessage(`{}`),
	}
	if _, err := f.snapshots.Begin(t.Context(), f.run); err != nil {
		t.Fatal(err)
	}
	if _, issued, err := f.issue(t.Context(), "under way", f.former.Fence); err != nil || !issued {
		t.Fatalf("issued %t: %v", issued, err)
	}
}

// takeOver fences the former owner off, and settles a turn.
func (f *fencedOff) takeOver(t *testing.T) {
	t.Helper()
	c, err := f.claim(t.Context(), "later", f.former.Fence)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.snapshots.Adopt(t.Context(), f.run.Key, c.Fence, 0); err != nil {
		t.Fatal(err)
	}
	e, issued, err := f.issue(t.Context(), "order", c.Fence)
	if err != nil || !issued {
		t.Fatalf("issued %t: %v", issued, err)
	}
	if _, err := f.ledger.Finish(t.Context(), e.ID, 1, ledger.Outcome{State: ledger.Completed}); err != nil {
		t.Fatal(err)
	}
	if err := f.settle(t.Context(), c.Lease, "lost"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.issue(t.Context(), "order", f.former.Fence); !errors.Is(err, lock.ErrFenced) {
		t.Errorf("who was fenced off pays: %v", err)
	}
	f.run.Seq++
	if err := f.settle(t.Context(), f.former, "late"); !errors.Is(err, lock.ErrFenced) {
		t.Errorf("who was fenced off settles: %v", err)
	}
	if err := f.snapshots.Save(t.Context(), f.run); !errors.Is(err, lock.ErrFenced) {
		t.Errorf("who was fenced off saves: %v", err)
	}
}

// judge checks the answers of the promoted standby to the former owner and to the next one.
func (f *fencedOff) judge(t *testing.T, comesBack bool) {
	t.Helper()
	want := lock.ErrFenced
	if comesBack {
		want = nil
	}
	if err := f.snapshots.Save(t.Context(), f.run); !errors.Is(err, want) {
		t.Errorf("%s: a save of who was fenced off returns %v, want %v", f.prefix, err, want)
	}
	if err := f.settle(t.Context(), f.former, "late"); !errors.Is(err, want) {
		t.Errorf("%s: an append of who was fenced off returns %v, want %v", f.prefix, err, want)
	}
	if _, issued, err := f.issue(t.Context(), "order", f.former.Fence); !errors.Is(err, want) || issued != comesBack {
		t.Errorf("%s: who was fenced off pays: %t, %v, want %v", f.prefix, issued, err, want)
	}
	if comesBack {
		return
	}
	lost, err := f.checkpoints.Renew(t.Context(), time.Hour, []checkpoint.Lease{f.former})
	if err != nil || len(lost) != 1 {
		t.Errorf("%s: who was fenced off renews its lease: %v", f.prefix, err)
	}
	if err := f.checkpoints.Mark(t.Context(), f.former, checkpoint.Marks{Summarized: 1}); !errors.Is(err,
		lock.ErrFenced) {
		t.Errorf("%s: a mark of who was fenced off returns %v", f.prefix, err)
	}
	c, err := f.claim(t.Context(), "next", lock.Fence{})
	if err != nil || c.Last != nil {
		t.Fatalf("%s: the next claim finds %v: %v", f.prefix, c.Last, err)
	}
	if adopted, err := f.snapshots.Adopt(t.Context(), f.run.Key, c.Fence, 0); err != nil || adopted.ID != f.run.ID {
		t.Errorf("%s: the next owner adopts %q: %v", f.prefix, adopted.ID, err)
	}
	for _, order := range []string{"order", "under way"} {
		e, issued, err := f.issue(t.Context(), order, c.Fence)
		if err != nil || issued || e.State != ledger.Unknown || order == "order" && e.Error == "" {
			t.Errorf("%s: the next owner issues %s: %t, %+v, %v", f.prefix, order, issued, e, err)
		}
	}
	if err := f.settle(t.Context(), c.Lease, "next"); err != nil {
		t.Errorf("%s: the next owner does not settle: %v", f.prefix, err)
	}
}
