package chaostest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A line of the history is formatted only when it is read.
type line struct {
	step   int
	format string
	args   []any
}

// runName is the id of a run, which the history abbreviates.
type runName string

// marksName is how the history shows marks.
type marksName checkpoint.Marks

func (m marksName) String() string {
	var parts []string
	if m.Delivered > 0 {
		parts = append(parts, fmt.Sprint("delivered ", m.Delivered))
	}
	if m.Retry > 0 {
		parts = append(parts, fmt.Sprint("retry ", m.Retry))
	}
	if m.Release {
		parts = append(parts, "release")
	}
	return strings.Join(parts, ", ")
}

func (w *simulation) note(format string, args ...any) {
	w.lines = append(w.lines, line{w.step, format, args})
}

func (w *simulation) nonce() string { return fmt.Sprintf("taken %d", w.step) }

// names gives the runs and fences of a history short names, in the order in which they appear.
type names map[string]string

func (n names) of(prefix, id string) string {
	if n[id] == "" {
		n[id] = fmt.Sprint(prefix, len(n)+1)
	}
	return n[id]
}

// events returns the lines.
func (w *simulation) events() string {
	var b strings.Builder
	for _, l := range w.lines {
		fmt.Fprintf(&b, "%5d  %s\n", l.step, w.names.text(l.format, l.args))
	}
	return b.String()
}

func (n names) text(format string, args []any) string {
	shown := make([]any, len(args))
	for i, arg := range args {
		shown[i] = n.show(arg)
	}
	return fmt.Sprintf(format, shown...)
}

// show abbreviates long values.
func (n names) show(arg any) any {
	switch arg := arg.(type) {
	case runName:
		return n.of("run", string(arg))
	case lock.Fence:
		return n.of("fence", arg.Nonce)
	case *message:
		parts := []string{fmt.Sprintf("process %d #%d: %s", arg.from.number, arg.call.number(), arg.op)}
		if arg.session != "" {
			parts = append(parts, arg.session)
		}
		for _, a := range arg.about {
			parts = append(parts, fmt.Sprint(n.show(a)))
		}
		return strings.Join(parts, " ")
	case reply:
		return n.reply(arg)
	}
	return arg
}

func (n names) reply(r reply) string {
	if held, ok := errors.AsType[*checkpoint.HeldError](r.err); ok && held.Owner != "" {
		return fmt.Sprint("held by ", n.show(held.Fence))
	}
	if r.err != nil {
		return r.err.Error()
	}
	switch v := r.value.(type) {
	case checkpoint.Claimed:
		return "granted"
	case *snapshot.Run:
		if v != nil {
			return "found " + n.run(*v)
		}
		return "begun"
	case snapshot.Run:
		return n.run(v)
	case []snapshot.Run:
		var all []string
		for _, r := range v {
			all = append(all, n.run(r))
		}
		return cmp.Or(strings.Join(all, ", "), "none")
	case []checkpoint.Checkpoint:
		var all []string
		for _, cp := range v {
			all = append(all, fmt.Sprintf("turn %d %v", cp.Turn, n.show(runName(cp.RunID))))
		}
		return cmp.Or(strings.Join(all, ", "), "none")
	case []checkpoint.Lease:
		return fmt.Sprintf("%d lost", len(v))
	}
	return "done"
}

func (n names) run(r snapshot.Run) string {
	return fmt.Sprintf("%v %s turn %d attempt %d", n.show(runName(r.ID)), r.Status, r.Turn, r.Attempt)
}
