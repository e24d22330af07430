package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"strconv"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// Sessions yields the sessions of this orchestrator that have a settled turn and that q selects, in byte order. It sets
// q.Orchestrator. A session that is damaged, or that cannot be reached, comes with its error; then Sessions goes on.
// After any other error Sessions ends.
func (o *Orchestrator[S]) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		q.Orchestrator = o.engine.identity.name
		for session, err := range o.engine.store.Sessions(ctx, q) {
			if err == nil && yield(session, nil) {
				continue
			}
			if err == nil || !yield(session, &Error{Op: "sessions", Session: session, Err: unavailable(err)}) ||
				!ofOneRow(err) && !partAway(err) {
				return
			}
		}
	}
}

// labels adds to options what the turn does to the labels of its session, and returns what the payload of the turn
// notes of them. The labels are written only if they are not those that the turn before has noted. If Definition.Labels
// fails, they stay.
func (x *execution[S]) labels(options *checkpoint.AppendOptions) (noted string) {
	newest, had := x.visit.newest, ""
	if newest != nil {
		had = notedLabels(newest.Payload)
	}
	if x.bot.def.Labels == nil {
		options.Relabel = had != "" // an earlier definition had Labels
		return ""
	}
	session := x.visit.own.Grant.Session
	labels, err := x.bot.labelsOf(x.ctx, x.state)
	if err != nil {
		x.bot.unlabeled.Do(func() {
			x.engine().log.ErrorContext(x.ctx, "labels of sessions stay as they are: Definition.Labels has failed",
				"session", session, "turn", x.index, "run", x.run.row.ID, x.engine().why(err))
		})
		return had
	}
	// A session that was begun anew may have labels of before, if a process that knows none has deleted it.
	if noted = labelsDigest(session, labels); newest == nil || noted != had {
		options.Relabel, options.Labels = true, labels
	}
	return noted
}

// labelsOf returns the labels of a state as a store keeps them.
func (o *codec[S]) labelsOf(ctx context.Context, state S) (labels []checkpoint.Label, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.engine.options.Limits.SettleTimeout)
	defer cancel()
	told := make(chan []checkpoint.Label, 1) // a function that was given up may go on
	err = o.engine.functions.run(ctx, func(context.Context) error {
		told <- o.def.Labels(&state)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return checkpoint.AppendOptions{Relabel: true, Labels: <-told}.Relabeled()
}

// labelsDigest is what a turn notes of the labels. It has the session in it, so that the digest which a fork has copied
// is not that of its own labels.
func labelsDigest(session string, labels []checkpoint.Label) string {
	parts := []string{"labels", session}
	for _, l := range labels {
		at := ""
		if !l.At.IsZero() {
			at = strconv.FormatInt(l.At.UnixMilli(), 10)
		}
		parts = append(parts, l.Name, at)
	}
	return digest(parts...)[:idLen]
}

// notedLabels returns what a turn has noted of the labels. It returns "" if the definition had no Labels, or if an
// earlier version of this package wrote the turn.
func notedLabels(payload json.RawMessage) string {
	var turn struct {
		Labels string `json:"labels"`
	}
	if !bytes.Contains(payload, []byte(`"labels"`)) || json.Unmarshal(payload, &turn) != nil {
		return ""
	}
	return turn.Labels
}
