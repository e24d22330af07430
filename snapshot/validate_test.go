package snapshot_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

func intact() snapshot.Run {
	return snapshot.Run{
		Key: snapshot.Key{Orchestrator: "bot", Session: "s"}, ID: "run", Status: snapshot.Running,
		Fence: lock.Fence{Epoch: 1, Nonce: "n"}, Payload: []byte(`{}`),
	}
}

// The bounds of numbers belong to what is accepted.
func TestBounds(t *testing.T) {
	r := intact()
	r.Turn, r.Attempt, r.Seq, r.Pause = math.MaxInt32, math.MaxInt32, math.MaxInt64, 366*24*time.Hour
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if err := snapshot.ValidateAdopt(r.Key, r.Fence, math.MaxInt32); err != nil {
		t.Error(err)
	}
	r.Pause++
	if err := r.Validate(); !errors.Is(err, snapshot.ErrInvalid) {
		t.Errorf("a pause of %v: %v", r.Pause, err)
	}
	r = intact()
	r.Fence.Epoch = 0
	if err := r.Validate(); !errors.Is(err, snapshot.ErrInvalid) {
		t.Errorf("epoch 0: %v", err)
	}
}

// A run is intact if a store could have written it. The time that is left of its pause may be any.
func TestIntact(t *testing.T) {
	r := intact()
	r.Pause = -time.Hour
	if err := r.Intact(); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*snapshot.Run){
		"no id":              func(r *snapshot.Run) { r.ID = "" },
		"unknown status":     func(r *snapshot.Run) { r.Status = "done" },
		"no fence":           func(r *snapshot.Run) { r.Fence = lock.Fence{} },
		"payload is no JSON": func(r *snapshot.Run) { r.Payload = []byte(`{`) },
		"part is no JSON":    func(r *snapshot.Run) { r.Parts = map[string]json.RawMessage{"fan": []byte(`{`)} },
	} {
		r := intact()
		change(&r)
		if d, ok := errors.AsType[*snapshot.DamagedError](r.Intact()); !ok || d.Key != r.Key {
			t.Errorf("%s: %v", what, r.Intact())
		}
	}
}

// A run is selected by the one query that is meant for it. If its status cannot be known, every query selects it.
func TestSelects(t *testing.T) {
	for status, unattended := range map[snapshot.Status]bool{
		snapshot.Running: true, snapshot.Waiting: true, snapshot.Suspended: false, snapshot.Parked: false,
		snapshot.Ended: true, "": true, "done": true,
	} {
		if (snapshot.Query{Unattended: true}).Selects(status) != unattended {
			t.Errorf("Unattended and a run that is %q", status)
		}
		if (snapshot.Query{Status: snapshot.Waiting}).Selects(status) !=
			(status == snapshot.Waiting || !status.Known()) {
			t.Errorf("a query for what waits, and a run that is %q", status)
		}
		if !(snapshot.Query{}).Selects(status) {
			t.Errorf("no query selects a run that is %q", status)
		}
	}
}
