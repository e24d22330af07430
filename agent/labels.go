package agent

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// The labels by which an agent's sessions are found, as SessionQuery.Label of Sessions. A session is LabelWaiting while
// it waits for an answer. LabelExpires is due when the session expires.
const (
	LabelWaiting = "waiting"
	LabelExpires = "expires"
)

// LabelUser is the label of the sessions of a user.
func LabelUser(user string) string { return "user:" + user }

// LabelTag is the label of the sessions with a tag.
func LabelTag(tag string) string { return "tag:" + tag }

// Sessions yields the sessions that q selects, in byte order: those of a user, those with a tag, or what is due.
// It sets q.Orchestrator. Its cost grows with the sessions that have the label. A session that an earlier version has
// written gets its labels with its next turn.
func (a *Agent[C]) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return a.bot.Sessions(ctx, q)
}

// labels returns the labels of a session. It leaves out a name that no store takes, and what is more than MostLabels.
func labels[C any](s *State[C]) (all []checkpoint.Label) {
	add := func(name string, at time.Time) {
		l := checkpoint.Label{Name: name, At: at}
		_, err := checkpoint.AppendOptions{Relabel: true, Labels: []checkpoint.Label{l}}.Relabeled()
		same := func(o checkpoint.Label) bool { return o.Name == name }
		if err == nil && len(all) < checkpoint.MostLabels && !slices.ContainsFunc(all, same) {
			all = append(all, l)
		}
	}
	if !s.Expires.IsZero() {
		add(LabelExpires, s.Expires)
	}
	if s.Over {
		return all
	}
	if s.waits() {
		add(LabelWaiting, time.Time{})
	}
	if until := s.until(); !until.IsZero() {
		add(LabelUntil, until)
	}
	if s.User != "" {
		add(LabelUser(s.User), time.Time{})
	}
	for _, tag := range s.Tags {
		add(LabelTag(tag), time.Time{})
	}
	return all
}

// waits reports whether the session waits for an answer that was not given.
func (s *State[C]) waits() bool { return s.Status == Paused && len(s.missing()) > 0 }
