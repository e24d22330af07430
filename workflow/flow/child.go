package flow

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/workflow"
)

// Child starts a run of w and waits for its end. It is cancelled with its parent. It has the version of w, and any
// process that has it may run it. While it runs, its parent costs a row, and nothing else. Children that are to run
// beside each other are started in branches: see Go and Each.
//
// A child that failed or was cancelled is a *RunError, whose Run has the ID, the Workflow, the Version, the Parent, the
// Status and the Error. So is a child whose row was deleted before its parent looked: it counts as failed. An input
// that no store takes is workflow.ErrInvalid, and nothing is started.
func Child[In, Out any](r *Run, name string, w *Workflow[In, Out], in In) (out Out, err error) {
	doc, err := encode("the input of child "+name, in)
	if err != nil {
		return out, err
	}
	doc, err = r.child(name, w.def, doc)
	if err != nil {
		return out, err
	}
	return out, r.decode(r.branch+name, doc, &out)
}

// A childEnd is the output of the row of a child that has not completed. As long as the child runs, the output is its
// id alone.
type childEnd struct {
	Run    string          `json:"run"`
	Status workflow.Status `json:"status"`
}

// A child is a child of a run, as a verb of it has it.
type child struct {
	id  string
	def *definition
	row workflow.Step
}

func (r *Run) child(name string, def *definition, in json.RawMessage) (json.RawMessage, error) {
	v, err := r.enter(name, workflow.KindChild)
	if err != nil {
		return nil, err
	}
	defer r.leave()
	c := child{def: def, row: v.row}
	switch {
	case v.known && v.row.Outcome == workflow.Done:
		return v.row.Output, nil
	case v.known && v.row.Outcome == workflow.Broken:
		return nil, r.childError(&c)
	case !v.known:
		c.row = workflow.Step{Name: v.name, Index: v.index, Kind: workflow.KindChild, Outcome: workflow.Open}
		c.row.Output, _ = json.Marshal(childID(r.ID(), v.name, r.stay.fence.Epoch))
		r.hold(c.row)
		r.flush() // what starts the child once more, after a crash, has to know its id
	}
	_ = r.decode(v.name, c.row.Output, &c.id)
	looks := false
	if c.row.Attempts == 0 { // it may not have been started
		looks = r.startChild(&c, in).Status.Over()
	}
	return r.childOver(&c, looks)
}

// childOver ends the verb of a child that is over. If the child is running, the body ends until the child has told its
// parent of its end. That can be lost, so the parent looks from time to time too.
func (r *Run) childOver(c *child, looks bool) (json.RawMessage, error) {
	x := r.stay
	told, mail := x.told(c.id)
	until := c.row.Until
	looks = looks || told != "" || !until.IsZero() && !x.now().Before(until)
	if looks {
		run, found := r.lookAt(c.id)
		switch {
		case !found && c.row.Attempts > 0:
			run = workflow.Run{Status: workflow.Failed, Error: "its row was deleted before its parent looked"}
		case !run.Status.Over():
			looks = false
		}
		if looks {
			return r.childEnded(c, &run, told)
		}
	} else if c.row.Attempts > 0 {
		r.parkFor(c, workflow.Step{}, parking{due: until, mail: mail})
	}
	again := c.row
	again.Attempts++
	again.For, again.Until = childLook(c.row.Attempts), time.Time{}
	r.parkFor(c, again, parking{after: again.For, mail: mail})
	return nil, nil
}

// parkFor parks the run until the child has told of its end, or until p.
func (r *Run) parkFor(c *child, st workflow.Step, p parking) {
	p.event = workflow.ChildEvent
	p.match, _ = json.Marshal(c.id)
	r.park(st, p)
}

// childLook returns for how long a parent waits before it looks at its child once more.
func childLook(looks int) time.Duration { return min(5*time.Second<<min(looks, 10), time.Hour) }

// childEnded notes how a child has ended. told is the signal that has told of it, or "".
func (r *Run) childEnded(c *child, run *workflow.Run, told string) (json.RawMessage, error) {
	x := r.stay
	st := workflow.Step{
		Name: c.row.Name, Index: c.row.Index, Kind: workflow.KindChild, Outcome: workflow.Done, Output: run.Output,
		Attempts: c.row.Attempts, Signal: told,
	}
	if run.Status != workflow.Completed {
		st.Outcome, st.Error = workflow.Broken, run.Error
		st.Output, _ = json.Marshal(childEnd{c.id, run.Status})
	}
	if told != "" {
		x.mu.Lock()
		x.taken[told] = true
		x.mu.Unlock()
	}
	r.hold(st)
	if run.Status == workflow.Completed {
		return st.Output, nil
	}
	c.row = st
	return nil, r.childError(c)
}

// childError returns the error of a child that has not completed, as its row has it.
func (r *Run) childError(c *child) error {
	var end childEnd
	if err := r.decode(c.row.Name, c.row.Output, &end); err != nil {
		return err
	}
	return &RunError{Run: workflow.Run{
		ID: end.Run, Workflow: c.def.Workflow, Version: c.def.Version, Parent: r.ID(), Status: end.Status,
		Error: c.row.Error,
	}}
}

// startChild starts the child, if it is not there.
func (r *Run) startChild(c *child, in json.RawMessage) (s workflow.Started) {
	x := r.stay
	n := []workflow.NewRun{{
		ID: c.id, Workflow: c.def.Workflow, Version: c.def.Version, Input: in, Parent: r.ID(),
		RetentionDays: c.def.keep,
	}}
	r.insist("child not started, and it is tried again", func(ctx context.Context) error {
		all, err := x.engine.Front().Start(ctx, n)
		switch {
		case err == nil:
			s = all[0]
		case errors.Is(err, workflow.ErrOver), errors.Is(err, workflow.ErrNotFound): // of this run
			x.lose(err)
			r.exit()
		case store.IsVerdict(err) && !errors.Is(err, workflow.ErrSchema):
			r.drifted(fmt.Errorf("flow: run %s: child %q: %w", r.ID(), c.row.Name, err))
		}
		return err
	})
	return s
}

// lookAt returns a run. A run that cannot be read counts as one that is running.
func (r *Run) lookAt(id string) (run workflow.Run, found bool) {
	r.insist("child not looked at, tried again", func(ctx context.Context) (err error) {
		run, err = workflow.NewClient(r.stay.engine.store).Get(ctx, id)
		found = !errors.Is(err, workflow.ErrNotFound)
		if err != nil && store.IsVerdict(err) && !errors.Is(err, workflow.ErrSchema) {
			run.Status, err = workflow.Running, nil
		}
		return err
	})
	return run, found
}

// insist calls the store until it has answered. If the run cannot go on here, the body ends.
func (r *Run) insist(what string, call func(ctx context.Context) error) {
	x := r.stay
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := func() error {
			ctx, cancel := context.WithTimeout(x.ctx, mostWait)
			defer cancel()
			return call(ctx)
		}()
		switch {
		case err == nil:
			return
		case x.stops():
			r.exit()
		case x.engine.abandons():
			x.lose(err)
			r.exit()
		case x.ctx.Err() != nil: // the process shuts down
			r.park(workflow.Step{}, parking{after: soon})
		}
		x.engine.fails(err)
		x.log().Warn(what, "err", logtext.Of(err))
		x.engine.pause(pause)
	}
}

// told returns the signal that has told of the end of a child, or "", and how much mail it has looked at.
func (x *stay) told(id string) (signal string, mail int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.signals {
		var of string
		if s.Name == workflow.ChildEvent && !x.taken[s.Signal] && json.Unmarshal(s.Output, &of) == nil && of == id {
			return s.Signal, x.mail
		}
	}
	return "", x.mail
}

// tellParent tells the parent of a run that the run is over. If that fails, the parent looks by itself.
func (x *stay) tellParent() {
	if x.run.Parent == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), mostWait)
	defer cancel()
	if _, err := x.engine.store.Send(ctx, []workflow.Message{workflow.ChildOver(x.run.Parent, x.run.ID)}); err != nil {
		x.log().Warn("parent not told of the end of its child, and it looks later", "err", logtext.Of(err))
	}
}

// mostID bounds the ids of children, which begin with that of their parent.
const mostID = 256

// childID returns the id of a child that has no row yet. It follows that of its parent in byte order: so do the locks
// of both. If the step is rewound, the child of then has another one.
func childID(parent, step string, epoch int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", step, epoch, parent))
	if len(parent) > mostID {
		parent = strings.ToValidUTF8(parent[:mostID/2], "")
	}
	return parent + "." + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:10]))
}
