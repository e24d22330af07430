package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An event is one reply to a contending process. Seq is the Seq that the process saved, or found.
type event struct {
	Op, Session, Run string
	Epoch, Seq       int64
	Fenced           bool
	Payload          string // what the save Seq wrote: a payload or a part
}

// A life is every reply about one run to all processes.
type life struct {
	session        string
	begun, deleted bool
	// upset are refused saves.
	adopted, saved, upset []event
}

// Processes begin, steal, save and delete at random. The stores refuse every call that contradicts what another process
// was told.
func runProcesses(t *testing.T, of store, _ *sql.DB, dsn string) {
	s := of.(runStore)
	lives := make(map[string]*life)
	late := make(map[string]bool) // the runs that were refused
	counts := make(map[string]int)
	contended(t, "snapshot", dsn, 4, func(e event) {
		if e.Op == "begin" && e.Fenced {
			late[e.Run] = true
		} else {
			record(lives, e)
		}
		counts[fmt.Sprintf("%s fenced=%t", e.Op, e.Fenced)]++
	})
	left := make(map[string]bool)
	for r, err := range s.Runs(t.Context(), snapshot.Query{Key: bot("")}) {
		if err != nil {
			t.Fatal(err)
		}
		left[r.ID] = true
		if lives[r.ID] == nil {
			t.Fatalf("run %s is in flight, and nobody was told", r.ID)
		}
		if r.Fence.Epoch < newest(lives[r.ID].adopted) {
			t.Errorf("run %s forgot a fence", r.ID)
		}
		if r, err = s.Adopt(t.Context(), r.Key, fence(1<<62), 0); err != nil {
			t.Fatal(err)
		}
		doc, err := lastSaved(r)
		want(t, err, nil)
		found := event{Op: "adopt", Session: r.Session, Run: r.ID, Epoch: 1 << 62, Seq: r.Seq, Payload: string(doc)}
		record(lives, found)
	}
	for id, l := range lives {
		if !l.begun || late[id] || l.deleted == left[id] {
			t.Errorf("run %s of session %s: begun %t, deleted %t, in flight %t", id, l.session, l.begun, l.deleted,
				left[id])
		}
		l.check(t, id)
	}
	if counts["begin fenced=false"] < 20 || counts["save fenced=true"] < 5 || counts["adopt fenced=true"] < 5 {
		t.Error("they hardly met")
	}
	t.Log(counts)
}

func record(lives map[string]*life, e event) {
	l := lives[e.Run]
	if l == nil {
		l = &life{session: e.Session}
		lives[e.Run] = l
	}
	switch {
	case e.Op == "begin":
		l.begun = true
		l.adopted = append(l.adopted, e)
	case e.Op == "adopt" && !e.Fenced:
		l.adopted = append(l.adopted, e)
	case e.Op == "save" && e.Fenced:
		l.upset = append(l.upset, e)
	case e.Op == "save":
		l.saved = append(l.saved, e)
	case e.Op == "delete" && !e.Fenced:
		l.deleted = true
	}
}

func newest(adopted []event) (epoch int64) {
	for _, a := range adopted {
		if a.Epoch < 1<<62 {
			epoch = max(epoch, a.Epoch)
		}
	}
	return epoch
}

// check compares the findings of each owner with the saves that were acknowledged, and refused, before.
func (l *life) check(t *testing.T, id string) {
	for _, a := range l.adopted {
		for _, w := range l.saved {
			switch {
			case w.Epoch < a.Epoch && w.Seq > a.Seq:
				t.Errorf("run %s: owner %d found seq %d, and %d was acknowledged to owner %d", id, a.Epoch, a.Seq,
					w.Seq, w.Epoch)
			case w.Seq == a.Seq && w.Payload != a.Payload:
				t.Errorf("run %s: seq %d was acknowledged as %s and found as %s", id, w.Seq, w.Payload, a.Payload)
			}
		}
		for _, w := range l.upset {
			if w.Payload == a.Payload {
				t.Errorf("run %s: owner %d found %s, which had been refused", id, a.Epoch, w.Payload)
			}
		}
	}
}

// contendForRun owns a run for a few saves, if it can. Then it may abandon the run.
func contendForRun(s snapshot.Store, say func(event)) error {
	ctx := context.Background()
	nonce := fmt.Sprintf("%016x", rand.Uint64())
	r := run(fmt.Sprintf("s%d", rand.N(3)))
	r.ID, r.Fence = nonce, lock.Fence{Epoch: time.Now().Add(-rand.N(10 * time.Millisecond)).UnixNano(), Nonce: nonce}
	doc := document(r, 0)
	r.Payload = doc
	tell := func(op string, err error) (goOn bool, _ error) {
		fenced := errors.Is(err, lock.ErrFenced)
		if err != nil && !fenced {
			return false, err
		}
		say(event{op, r.Session, r.ID, r.Fence.Epoch, r.Seq, fenced, string(doc)})
		return !fenced, nil
	}
	in, err := s.Begin(ctx, r)
	if in == nil {
		if goOn, err := tell("begin", err); !goOn {
			return err
		}
	} else {
		f := r.Fence
		r, err = s.Adopt(ctx, r.Key, f, 1<<20)
		if errors.Is(err, snapshot.ErrNotFound) {
			return nil
		}
		if errors.Is(err, lock.ErrFenced) {
			r = *in
			r.Fence = f
		} else if doc, err = lastSaved(r); err != nil {
			return err
		}
		if goOn, err := tell("adopt", err); !goOn {
			return err
		}
	}
	parts := len(r.Parts)
	for range rand.N(6) {
		r.Seq++
		r.Payload, r.Parts = nil, nil
		if parts++; rand.N(2) == 0 {
			doc = document(r, parts)
			r.Parts = map[string]json.RawMessage{fmt.Sprint(r.Seq): doc}
		} else {
			parts = 0
			doc = document(r, parts)
			r.Payload = doc
		}
		if goOn, err := tell("save", s.Save(ctx, r)); !goOn {
			return err
		}
	}
	if rand.N(2) == 0 {
		_, err = tell("delete", s.Delete(ctx, r.Key, r.ID, r.Fence))
	}
	return err
}

// document returns what only this owner writes at this step. It is the payload, or the part that is the last of so
// many.
func document(r snapshot.Run, parts int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`"%s %d %d"`, r.Fence.Nonce, r.Seq, parts))
}

// lastSaved returns the document that the last save wrote. If a part is missing that this save counts, it returns an
// error.
func lastSaved(r snapshot.Run) (json.RawMessage, error) {
	doc, ok := r.Parts[fmt.Sprint(r.Seq)]
	if !ok {
		doc = r.Payload
	}
	var parts int
	if _, err := fmt.Sscanf(string(doc), `"%s %d %d"`, new(string), new(int64), &parts); err != nil {
		return nil, err
	}
	if parts != len(r.Parts) {
		return nil, fmt.Errorf("run %s at seq %d has %d parts: %v", r.ID, r.Seq, len(r.Parts), r.Parts)
	}
	return doc, nil
}
