package enginetest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A store that breaks a promise lets the engine break one, and the matrix says which.
func TestBroken(t *testing.T) {
	for _, c := range []struct {
		name   string
		law    string   // that is broken
		only   []string // in these scenarios
		damage func(*Stores)
	}{
		{"Append by any owner", Once, []string{"iterations"}, func(s *Stores) { s.Checkpoints = anyOwner{newLoan(s)} }},
		{"Append takes another's turn for its own", Kept, []string{"iterations"}, func(s *Stores) { s.Checkpoints = neverTells{s.Checkpoints} }},
		{"Append forgets a repeat", Healed, []string{"one dispatch"}, func(s *Stores) { s.Checkpoints = noRepeat{s.Checkpoints} }},
		{"Append forgets what is owed", Delivered, []string{"one dispatch, delivered"}, func(s *Stores) { s.Checkpoints = owesNothing{s.Checkpoints} }},
		{"Append is not durable", Kept, []string{"one dispatch"}, func(s *Stores) { s.Checkpoints = appendsNothing{s.Checkpoints} }},
		{"Claim forgets the answer", Kept, []string{"one dispatch"}, func(s *Stores) { s.Checkpoints = noAnswer{s.Checkpoints} }},
		{"Claim reads before it waits", Healthy, []string{"owed reply"}, func(s *Stores) { s.Checkpoints = staleClaim{s.Checkpoints, new(last)} }},
		{"Mark forgets", Delivered, []string{"one dispatch, delivered"}, func(s *Stores) { s.Checkpoints = marksNothing{s.Checkpoints} }},
		{"Mark releases another's lease", Healthy, []string{"Reject"}, func(s *Stores) { s.Checkpoints = releasesAny{newLoan(s)} }},
		{"Delete forgets the turns", Once, []string{"Delete"}, func(s *Stores) { s.Checkpoints = deletesNothing{s.Checkpoints} }},

		{"Begin replaces", Once, []string{"resume another first"}, func(s *Stores) { s.Snapshots = beginReplaces{s.Snapshots} }},
		{"Begin takes its own for new", Saved, []string{"resume own"}, func(s *Stores) { s.Snapshots = beginRepeats{s.Snapshots} }},
		{"Adopt forgets the fence", Healthy, []string{"resume own"}, func(s *Stores) { s.Snapshots = adoptsNothing{s.Snapshots} }},
		{"Adopt revives", Failed, []string{"failing intent"}, func(s *Stores) { s.Snapshots = adoptRevives{s.Snapshots} }},
		{"Save creates", Failed, []string{"failing branch"}, func(s *Stores) { s.Snapshots = saveCreates{s.Snapshots} }},
		{"Save by any owner", Failed, []string{"failing in the end"}, func(s *Stores) { s.Snapshots = saveAny{s.Snapshots} }},
		{"Save forgets", Saved, []string{"iterations"}, func(s *Stores) { s.Snapshots = savesNothing{s.Snapshots, snapshot.Running} }},
		{"Save forgets the end", Failed, []string{"failing intent"}, func(s *Stores) { s.Snapshots = savesNothing{s.Snapshots, snapshot.Ended} }},
		{"Save changes half", Whole, []string{"iterations"}, func(s *Stores) { s.Snapshots = savesHalf{s.Snapshots} }},
		{"Delete by any owner", Healthy, []string{"iterations"}, func(s *Stores) { s.Snapshots = dropsAny{s.Snapshots} }},
		{"Delete forgets", Healthy, []string{"one dispatch"}, func(s *Stores) { s.Snapshots = dropsNothing{s.Snapshots} }},
		{"Runs hides", Once, []string{"iterations, no request id"}, func(s *Stores) { s.Snapshots = hidesRuns{s.Snapshots} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := Stores{new(checkpoint.Memory), new(snapshot.Memory)}
			c.damage(&s)
			rep := Matrix{Only: c.only, Enough: 8, Patience: 2 * time.Second}.Run(t.Context(), s)
			laws := make(map[string]int)
			for _, f := range rep.Findings {
				for _, w := range f.Wrong {
					laws[w.Law]++
				}
			}
			if laws[c.law] == 0 {
				t.Errorf("%d histories do not see that %q; but %q", rep.Histories, c.law, slices.Collect(maps.Keys(laws)))
			}
			t.Log(rep.Histories, laws)
		})
	}
}
