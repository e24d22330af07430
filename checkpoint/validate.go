package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/valid"
	"github.com/holdfast-go/holdfast/lock"
)

// The methods below are for authors of a store. Each refuses, with ErrInvalid, arguments that no backend takes, so that
// all stores give the same verdict. A store calls them before it does anything.

// Validate checks names and fence.
func (l Lease) Validate() error {
	if err := l.Key.Validate(); err != nil {
		return err
	}
	return valid.ID("nonce", l.Fence.Nonce)
}

// Validate checks what a claim needs.
func (r ClaimRequest) Validate() error {
	if err := valid.ID("nonce", r.Nonce); err != nil {
		return err
	}
	if err := validTTL(r.TTL); err != nil {
		return err
	}
	if err := valid.Optional("owner", r.Owner); err != nil {
		return err
	}
	if r.From != (lock.Fence{}) {
		if err := valid.ID("nonce of From", r.From.Nonce); err != nil {
			return err
		}
	}
	if r.Born < 0 || r.Born > 0 && r.Born >= r.From.Epoch {
		return fmt.Errorf("%w: born %d of a claim from epoch %d", ErrInvalid, r.Born, r.From.Epoch)
	}
	return valid.Optional("request id", r.RequestID)
}

// Validate checks everything that is stored.
func (cp Checkpoint) Validate() error { return cp.validate(jsonvalue.Check) }

// validate checks a turn, with judge for its documents.
func (cp Checkpoint) validate(judge func(doc []byte) error) error {
	if cp.Turn < 0 || cp.Turn >= Newest {
		return fmt.Errorf("%w: turn %d", ErrInvalid, cp.Turn)
	}
	if err := valid.ID("run id", cp.RunID); err != nil {
		return err
	}
	texts := [...]struct{ what, text string }{
		{"request id", cp.RequestID}, {"signature", cp.Signature}, {"version", cp.Version},
	}
	for _, t := range texts {
		if err := valid.Optional(t.what, t.text); err != nil {
			return err
		}
	}
	for _, intent := range cp.Route {
		if err := valid.Optional("route", intent); err != nil {
			return err
		}
	}
	if err := judge(cp.State); err != nil {
		return fmt.Errorf("%w: state: %w", ErrInvalid, err)
	}
	if len(cp.Payload) == 0 {
		return nil
	}
	if err := judge(cp.Payload); err != nil {
		return fmt.Errorf("%w: payload: %w", ErrInvalid, err)
	}
	return nil
}

// Damaged returns the error of a session that a store could not read because of err.
func Damaged(k Key, err error) *DamagedError {
	d := DamagedError{Key: k, What: "session", Remedy: "restore it, or delete the session by Orchestrator.Delete"}
	return d.Because(err)
}

// DamagedTurn returns the error of a turn that a store could not read because of err.
func DamagedTurn(k Key, turn int, err error) *DamagedError {
	d := Damaged(k, err)
	d.Reason = fmt.Sprintf("stored turn %d: %s", turn, d.Reason)
	return d
}

// Intact returns a *DamagedError unless a store wrote the head. c has the numbers of the head, and turn is the last
// settled turn.
func (c Claimed) Intact(turn int) error {
	counted := func(n int) bool { return 0 <= n && n <= turn+1 }
	if c.Born > 0 && c.Fence.Epoch >= c.Born && turn < Newest &&
		counted(c.Summarized) && counted(c.Delivered) && c.Failed >= 0 {
		return nil
	}
	return Damaged(c.Key, fmt.Errorf("head: epoch %d, born %d, turn %d, summarized %d, delivered %d, failed %d",
		c.Fence.Epoch, c.Born, turn, c.Summarized, c.Delivered, c.Failed))
}

// HeadOf returns the Head of a session without a live lease. Unless a store wrote the head, HeadOf returns a
// *DamagedError. c has the numbers of the head, turn is the last settled turn, and first is the oldest kept turn.
func HeadOf(c Claimed, turn, first int) (Head, error) {
	if err := c.Intact(turn); err != nil {
		return Head{}, err
	}
	if first < 0 || first > turn+1 {
		return Head{}, Damaged(c.Key, fmt.Errorf("head: turn %d, first %d", turn, first))
	}
	return Head{Turn: turn, First: first, Owed: turn + 1 - c.Delivered, Summarized: c.Summarized}, nil
}

// Intact returns a *DamagedError unless a store wrote cp as it was read. It does not judge the size of the documents:
// an earlier version may have taken larger ones.
func (cp Checkpoint) Intact(k Key) error {
	if err := cp.validate(jsonvalue.Stored); err != nil {
		return DamagedTurn(k, cp.Turn, err)
	}
	return nil
}

// ErrNoHead is the reason of a DamagedError if the turns of a session are kept without a head.
var ErrNoHead = errors.New("its turns are kept, and its head is missing")

// Kept returns how many turns stay.
func (o AppendOptions) Kept() (int, error) {
	switch {
	case o.Keep == 0:
		return DefaultKeep, nil
	case o.Keep < 0 || o.Keep > KeepAll:
		return 0, fmt.Errorf("%w: keep %d", ErrInvalid, o.Keep)
	}
	return o.Keep, nil
}

// Known returns the verdict on an Append that appends nothing because a kept turn has its run.
func (o AppendOptions) Known() error {
	if o.Fresh {
		return ErrConflict
	}
	return nil
}

// Relabeled returns the labels of Relabel by name, with At in UTC and cut to milliseconds. It returns nil if the labels
// stay as they are, and a list that is not nil if they are replaced.
func (o AppendOptions) Relabeled() ([]Label, error) {
	if !o.Relabel && len(o.Labels) == 0 {
		return nil, nil
	}
	if !o.Relabel || len(o.Labels) > MostLabels {
		return nil, fmt.Errorf("%w: %d labels, with Relabel %t", ErrInvalid, len(o.Labels), o.Relabel)
	}
	labels := make([]Label, len(o.Labels))
	for i, l := range o.Labels {
		if err := validLabel(l.Name); err != nil {
			return nil, err
		}
		l.At = cut(l.At)
		if !l.At.IsZero() && (l.At.Year() < 1970 || l.At.Year() > 9999) {
			return nil, fmt.Errorf("%w: label at %v", ErrInvalid, l.At)
		}
		labels[i] = l
	}
	slices.SortFunc(labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(labels); i++ {
		if labels[i].Name == labels[i-1].Name {
			return nil, fmt.Errorf("%w: label %q twice", ErrInvalid, labels[i].Name)
		}
	}
	return labels, nil
}

// validLabel checks the name of a label.
func validLabel(name string) error {
	if len(name) > longestLabel {
		return fmt.Errorf("%w: label of %d bytes", ErrInvalid, len(name))
	}
	return valid.ID("label", name)
}

const longestLabel = 256

// cut returns t in UTC and in whole milliseconds. It leaves the zero Time as it is.
func cut(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// DueBy returns By in UTC, cut to milliseconds as a Label is. It returns the zero Time if By does not count.
func (q SessionQuery) DueBy() time.Time { return cut(q.By) }

// Validate checks the counters.
func (m Marks) Validate() error {
	if m.Summarized < 0 || m.Delivered < 0 || m.Summarized > Newest || m.Delivered > Newest {
		return fmt.Errorf("%w: marks %d and %d", ErrInvalid, m.Summarized, m.Delivered)
	}
	if m.Retry < 0 || m.Retry > maxTTL {
		return fmt.Errorf("%w: retry after %v", ErrInvalid, m.Retry)
	}
	return nil
}

// Validate checks the name and the bounds.
func (q SessionQuery) Validate() error {
	if err := valid.ID("orchestrator", q.Orchestrator); err != nil {
		return err
	}
	if err := valid.Optional("prefix", q.Prefix); err != nil {
		return err
	}
	if err := cmp.Or(valid.Optional("after", q.After), valid.Optional("session", q.Session)); err != nil {
		return err
	}
	if q.Session != "" && (q.Prefix != "" || q.After != "") {
		return fmt.Errorf("%w: Session with Prefix %q and After %q", ErrInvalid, q.Prefix, q.After)
	}
	if q.Limit < 0 {
		return fmt.Errorf("%w: limit %d", ErrInvalid, q.Limit)
	}
	if q.Due && !q.Owing {
		return fmt.Errorf("%w: Due without Owing", ErrInvalid)
	}
	if q.HeldBack < 0 || q.HeldBack > maxTTL || q.HeldBack > 0 && (q.Due || !q.Owing) {
		return fmt.Errorf("%w: HeldBack of %v, with Owing %t and Due %t", ErrInvalid, q.HeldBack, q.Owing, q.Due)
	}
	if by := q.DueBy(); !by.IsZero() && (q.Label == "" || by.Year() < 1970 || by.Year() > 9999) {
		return fmt.Errorf("%w: By %v, with Label %q", ErrInvalid, q.By, q.Label)
	}
	if q.Label == "" {
		return nil
	}
	return validLabel(q.Label)
}

// ValidateHeld checks the arguments of Held.
func ValidateHeld(orchestrator string, sessions []string) error {
	for _, id := range sessions {
		if err := (Key{Orchestrator: orchestrator, Session: id}).Validate(); err != nil {
			return err
		}
	}
	return nil
}

// ValidateRenew checks the arguments of Renew.
func ValidateRenew(ttl time.Duration, leases []Lease) error {
	if err := validTTL(ttl); err != nil {
		return err
	}
	for _, l := range leases {
		if err := l.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// A year is longer than any sensible lease, and short enough that no clock arithmetic overflows.
const maxTTL = 366 * 24 * time.Hour

func validTTL(ttl time.Duration) error {
	if ttl < time.Microsecond || ttl > maxTTL {
		return fmt.Errorf("%w: lease of %v", ErrInvalid, ttl)
	}
	return nil
}
