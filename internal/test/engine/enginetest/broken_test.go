package enginetest

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// If a store breaks a promise, the engine breaks a law, and the matrix says which law.
func TestBroken(t *testing.T) {
	for _, c := range []struct {
		name   string
		law    string // the broken law
		only   string // the only scenario
		damage func(*Stores)
	}{
		{"Append by any owner", Once, "iterations", func(s *Stores) { s.Checkpoints = anyOwner{newLoan(s)} }},
		{
			"Append takes another's turn for its own", Kept, "iterations",
			func(s *Stores) { s.Checkpoints = neverTells{s.Checkpoints} },
		},
		{
			"Append forgets a repeat", Healed, "one dispatch",
			func(s *Stores) { s.Checkpoints = noRepeat{s.Checkpoints} },
		},
		{
			"Append forgets what is owed", Delivered, "one dispatch, delivered",
			func(s *Stores) { s.Checkpoints = owesNothing{s.Checkpoints} },
		},
		{
			"Append is not durable", Kept, "one dispatch",
			func(s *Stores) { s.Checkpoints = appendsNothing{s.Checkpoints} },
		},
		{
			"Claim forgets the answer", Kept, "one dispatch",
			func(s *Stores) { s.Checkpoints = noAnswer{s.Checkpoints} },
		},
		{"Claim takes from any owner", Healthy, "Abandon", func(s *Stores) { s.Checkpoints = fromAny{newLoan(s)} }},
		{
			"Claim from itself gives the same fence", Healed, "own finished run: failed",
			func(s *Stores) { s.Checkpoints = sameFence{newLoan(s)} },
		},
		{
			"Claim reads before it waits", Healthy, "owed reply",
			func(s *Stores) { s.Checkpoints = staleClaim{s.Checkpoints, new(last)} },
		},
		{
			"a ledger that adopts nothing", Unowned, "Abandon with an effect",
			func(s *Stores) { s.Ledger = ledgerWithoutAdopt{s.Ledger} },
		},
		{
			"a ledger that issues what is Unknown", Paid, "effects",
			func(s *Stores) { s.Ledger = ledgerThatHurries{s.Ledger} },
		},
		{
			"a ledger that forgets a lost reply", Healed, "effects",
			func(s *Stores) { s.Ledger = ledgerWithoutRepeat{s.Ledger} },
		},
		{
			"a ledger that records no outcome", Unowned, "effects",
			func(s *Stores) { s.Ledger = ledgerWithoutFinish{s.Ledger} },
		},
		{
			"a ledger that refuses a repeat of Finish", Healed, "effects",
			func(s *Stores) { s.Ledger = ledgerThatFences{s.Ledger} },
		},
		{
			"a ledger that does not find an effect by its id", Paid, "effects",
			func(s *Stores) { s.Ledger = ledgerWithoutIDs{s.Ledger} },
		},
		{
			"a turn log that loses the beginning", Logged, "log, iterations",
			func(s *Stores) { s.TurnLog = logWithout{s.TurnLog, turnlog.Started} },
		},
		{
			"a turn log that loses the end", Logged, "log",
			func(s *Stores) { s.TurnLog = logWithout{s.TurnLog, turnlog.Settled} },
		},
		{
			"a turn log that keeps each phase once", Logged, "log, failing intent",
			func(s *Stores) { s.TurnLog = logByPhase{s.TurnLog} },
		},
		{
			"a turn log that refuses a repeat", Healed, "log",
			func(s *Stores) { s.TurnLog = logOnce{s.TurnLog} },
		},
		{
			"Mark forgets", Delivered, "one dispatch, delivered",
			func(s *Stores) { s.Checkpoints = marksNothing{s.Checkpoints} },
		},
		{
			"Mark releases another's lease", Healthy, "Reject",
			func(s *Stores) { s.Checkpoints = releasesAny{newLoan(s)} },
		},
		{
			"Delete by any owner of the session", Kept, "Delete",
			func(s *Stores) { s.Checkpoints = deletesAny{newLoan(s)} },
		},
		{
			"Delete forgets the turns", Once, "Delete",
			func(s *Stores) { s.Checkpoints = deletesNothing{s.Checkpoints} },
		},

		{
			"Begin replaces", Once, "resume another first",
			func(s *Stores) { s.Snapshots = beginReplaces{newForgets()} },
		},
		{
			"Begin takes its own for new", Saved, "resume own, no Begin",
			func(s *Stores) { s.Snapshots = beginRepeats{newForgets()} },
		},
		{
			"Begin forgets the fence with the run", Begun, "one dispatch",
			func(s *Stores) { s.Snapshots = newForgets() },
		},
		{
			"Begin under a fence that is spent", Failed, "failing intent",
			func(s *Stores) { s.Snapshots = beginsAgain{newForgets(), new(atomic.Int64)} },
		},
		{
			"Adopt forgets the fence", Healthy, "resume own",
			func(s *Stores) { s.Snapshots = adoptsNothing{s.Snapshots} },
		},
		{
			"Adopt forgets the fence without a run", Begun, "one dispatch, ended from outside",
			func(s *Stores) { s.Snapshots = adoptsUnkept{s.Snapshots} },
		},
		{
			"Adopt forgets the parts", Saved, "resume own",
			func(s *Stores) { s.Snapshots = adoptsWithout{s.Snapshots} },
		},
		{"Adopt revives", Failed, "failing intent", func(s *Stores) { s.Snapshots = adoptRevives{s.Snapshots} }},
		{
			"Save creates", Failed, "failing branch",
			func(s *Stores) { s.Snapshots = saveCreates{newForgets(), new(sync.Map)} },
		},
		{"Save by any owner", Failed, "failing in the end", func(s *Stores) { s.Snapshots = saveAny{s.Snapshots} }},
		{
			"Save forgets", Saved, "iterations",
			func(s *Stores) { s.Snapshots = savesNothing{s.Snapshots, snapshot.Running} },
		},
		{
			"Save forgets the end", Failed, "failing intent",
			func(s *Stores) { s.Snapshots = savesNothing{s.Snapshots, snapshot.Ended} },
		},
		{"Save loses the payload", Idle, "Resume", func(s *Stores) { s.Snapshots = saveEmpties{s.Snapshots} }},
		{"Save loses parts", Saved, "iterations", func(s *Stores) { s.Snapshots = saveLosesParts{s.Snapshots} }},
		{
			"Save replaces the parts beside an old payload", Saved, "Resume",
			func(s *Stores) { s.Snapshots = saveReplaces{s.Snapshots} },
		},
		{"Save loses the items", Idle, "Resume items", func(s *Stores) { s.Snapshots = saveLosesItems{s.Snapshots} }},
		{"Save changes half", Whole, "iterations", func(s *Stores) { s.Snapshots = savesHalf{s.Snapshots} }},
		{
			"Delete by any owner", Healthy, "iterations, delivered",
			func(s *Stores) { s.Snapshots = dropsAny{s.Snapshots} },
		},
		{"Delete forgets", Healthy, "one dispatch", func(s *Stores) { s.Snapshots = dropsNothing{s.Snapshots} }},
		{"Runs hides", Once, "iterations, no request id", func(s *Stores) { s.Snapshots = hidesRuns{s.Snapshots} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			convict(t, Matrix{Only: []string{c.only}, Enough: 24, Patience: 2 * time.Second}, c.law, c.damage)
		})
	}
}

// A branch that a run with another base left counts as one that has run. The other branch waits in vain for that
// branch.
func TestBrokenParts(t *testing.T) {
	t.Parallel()
	m := Matrix{Only: []string{"Resume halfway on another base"}, Enough: 8, Patience: unsaved + 2*time.Second}
	convict(t, m, Begun, func(s *Stores) { s.Snapshots = saveAddsParts{s.Snapshots} })
}

// convict runs the matrix on damaged stores, and wants the law to be broken. On a slow machine, the findings may be of
// other laws. So convict does not end the matrix early.
func convict(t *testing.T, m Matrix, law string, damage func(*Stores)) {
	t.Helper()
	trials, laws := broken(t, m, damage)
	if laws[law] == 0 {
		m.Enough = 1 << 20
		trials, laws = broken(t, m, damage)
	}
	if laws[law] == 0 {
		t.Errorf("%d trials do not see that %q; but %q", trials, law, slices.Collect(maps.Keys(laws)))
	}
	t.Log(trials, laws)
}

// broken returns the number of trials, and how often each law was broken.
func broken(t *testing.T, m Matrix, damage func(*Stores)) (trials int, laws map[string]int) {
	t.Helper()
	s := Stores{
		Checkpoints: new(checkpoint.Memory), Snapshots: new(snapshot.Memory), Ledger: new(ledger.Memory),
		TurnLog: new(turnlog.Memory),
	}
	damage(&s)
	rep := m.Run(t.Context(), s)
	laws = make(map[string]int)
	for _, f := range rep.Findings {
		for _, w := range f.Wrong {
			laws[w.Law]++
		}
	}
	return rep.Trials, laws
}
