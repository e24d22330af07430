package workflowtest

import (
	"context"

	"github.com/holdfast-go/holdfast/workflow"
)

var noteClauses = []clause{{
	name: "notes",
	rule: "a store that tells notes tells those of this process: a run may be due, and the owner of a run has lost it",
	check: func(p *probe, s workflow.Store) {
		l, is := s.(workflow.Listener)
		if !is {
			return
		}
		ctx, cancel := context.WithCancel(p.ctx)
		heard, ended := make(chan workflow.Note, 1000), make(chan struct{})
		go func() {
			defer close(ended)
			l.Listen(ctx, func(n workflow.Note) {
				select {
				case heard <- n:
				default: // hear must not wait
				}
			})
		}()
		defer func() {
			cancel()
			<-ended
		}()
		hears := func(what string, note workflow.Note, act func()) {
			for act(); ; {
				select {
				case n := <-heard:
					if n == note {
						return
					}
				case <-p.ctx.Done():
					fail("after %s no note %+v is heard", what, note)
				}
			}
		}
		for first := false; !first; { // it listens from now on
			l.Tell(workflow.Note{Beats: true})
			select {
			case n := <-heard:
				first = n.Beats
			default:
			}
			ok(p.ctx.Err())
		}
		hears("Tell", workflow.Note{Run: "x"}, func() { l.Tell(workflow.Note{Run: "x"}) })
		hears("a start", workflow.Note{}, func() { p.start(starting("r")) })
		hears("a signal", workflow.Note{}, func() { p.tell(signal("r", "e", `1`), workflow.Kept) })
		p.claimed("r", plain("a"))
		hears("a pause", workflow.Note{Run: "r"}, func() { p.act("r", workflow.Pause) })
		hears("a resumption", workflow.Note{}, func() { p.act("r", workflow.Resume) })
		p.claimed("r", plain("a"))
		p.start(ownedChild("r", "child"))
		p.start(ownedChild("child", "deep"))
		hears("a cancellation", workflow.Note{Run: "r"}, func() { p.act("r", workflow.Cancel) })
		hears("the cancellation of a family", workflow.Note{Run: "deep"}, func() {})
	},
}}
