package checkpoint_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// The bounds of numbers belong to what is accepted.
func TestBounds(t *testing.T) {
	const year = 366 * 24 * time.Hour
	kept := func(keep int) error { _, err := checkpoint.AppendOptions{Keep: keep}.Kept(); return err }
	claim := func(ttl time.Duration) error { return checkpoint.ClaimRequest{Nonce: "n", TTL: ttl}.Validate() }
	watch := func(d time.Duration) error { return lock.ValidateWatch("bot", "1", "a", d) }
	for what, err := range map[string]error{
		"all turns kept":    kept(checkpoint.KeepAll),
		"one turn kept":     kept(1),
		"longest lease":     claim(year),
		"shortest lease":    claim(time.Microsecond),
		"longest watch":     watch(year),
		"no watch":          watch(0),
		"longest retry":     checkpoint.Marks{Retry: year}.Validate(),
		"everything marked": checkpoint.Marks{Summarized: checkpoint.Newest, Delivered: checkpoint.Newest}.Validate(),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	beyond := checkpoint.Newest
	beyond++ // negative, if an int has 32 bits
	for what, err := range map[string]error{
		"more summarized":          checkpoint.Marks{Summarized: beyond}.Validate(),
		"more delivered":           checkpoint.Marks{Delivered: beyond}.Validate(),
		"fewer than no turns kept": kept(-1),
		"lease too long":           claim(year + 1),
		"lease too short":          claim(time.Microsecond - 1),
		"watch too long":           watch(year + 1),
		"negative watch":           watch(-1),
		"retry too long":           checkpoint.Marks{Retry: year + 1}.Validate(),
		"negative retry":           checkpoint.Marks{Retry: -1}.Validate(),
		"negative summarized":      checkpoint.Marks{Summarized: -1}.Validate(),
		"negative delivered":       checkpoint.Marks{Delivered: -1}.Validate(),
	} {
		if !errors.Is(err, checkpoint.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n, err := (checkpoint.AppendOptions{}).Kept(); n != checkpoint.DefaultKeep || err != nil {
		t.Errorf("%d turns kept by default: %v", n, err)
	}
}

// A head is intact if its numbers fit each other.
func TestHeadIntact(t *testing.T) {
	head := func(change func(*checkpoint.Claimed)) error {
		c := checkpoint.Claimed{
			Lease: checkpoint.Lease{
				Key: checkpoint.Key{Orchestrator: "bot", Session: "s"}, Fence: lock.Fence{Epoch: 7, Nonce: "n"},
			},
			Born: 7, Summarized: 3, Delivered: 3,
		}
		change(&c)
		return c.Intact(2)
	}
	for what, change := range map[string]func(*checkpoint.Claimed){
		"all turns are summarized and delivered": func(*checkpoint.Claimed) {},
		"born with the first epoch there is":     func(c *checkpoint.Claimed) { c.Born = 1 },
		"nothing is summarized":                  func(c *checkpoint.Claimed) { c.Summarized = 0 },
		"nothing is delivered":                   func(c *checkpoint.Claimed) { c.Delivered = 0 },
		"a delivery failed":                      func(c *checkpoint.Claimed) { c.Failed = 1 },
	} {
		if err := head(change); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, change := range map[string]func(*checkpoint.Claimed){
		"not born":                           func(c *checkpoint.Claimed) { c.Born = 0 },
		"claimed before it was born":         func(c *checkpoint.Claimed) { c.Fence.Epoch = 6 },
		"more is summarized than settled":    func(c *checkpoint.Claimed) { c.Summarized = 4 },
		"fewer than no turns are summarized": func(c *checkpoint.Claimed) { c.Summarized = -1 },
		"more is delivered than settled":     func(c *checkpoint.Claimed) { c.Delivered = 4 },
		"fewer than no deliveries failed":    func(c *checkpoint.Claimed) { c.Failed = -1 },
	} {
		err := head(change)
		if d, ok := errors.AsType[*checkpoint.DamagedError](err); !ok || d.Session != "s" {
			t.Errorf("%s: %v", what, err)
		}
	}
	c := checkpoint.Claimed{Lease: checkpoint.Lease{Fence: lock.Fence{Epoch: 7}}, Born: 7}
	if c.Intact(checkpoint.Newest-1) != nil || c.Intact(checkpoint.Newest) == nil {
		t.Error("the number of the last turn")
	}
}

// A turn is intact if a store could have written it. The error names the turn.
func TestTurnIntact(t *testing.T) {
	k := checkpoint.Key{Orchestrator: "bot", Session: "s"}
	cp := checkpoint.Checkpoint{Turn: 3, RunID: "run", State: []byte(`{}`)}
	if err := cp.Intact(k); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*checkpoint.Checkpoint){
		"no run id":              func(cp *checkpoint.Checkpoint) { cp.RunID = "" },
		"request id not text":    func(cp *checkpoint.Checkpoint) { cp.RequestID = "\x00" },
		"state is no JSON":       func(cp *checkpoint.Checkpoint) { cp.State = []byte(`{`) },
		"payload is no JSON":     func(cp *checkpoint.Checkpoint) { cp.Payload = []byte(`{`) },
		"intent with a bad name": func(cp *checkpoint.Checkpoint) { cp.Route = []string{"\x00"} },
	} {
		damaged := cp
		change(&damaged)
		err := damaged.Intact(k)
		d, ok := errors.AsType[*checkpoint.DamagedError](err)
		if !ok || d.Key != k || !strings.HasPrefix(d.Reason, "stored turn 3: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
