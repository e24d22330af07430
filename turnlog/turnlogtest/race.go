package turnlogtest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/turnlog"
)

// races is how often a clause repeats what two callers do at once.
const races = 20

var raceClauses = []clause{
	{
		name: "repeat-race",
		rule: "the same entry several times at once is one entry, and all calls succeed",
		check: func(p *probe) {
			for range races {
				e := entry(newRun(), turnlog.ToolReceived, 0)
				var errs [4]error
				var all []func()
				for i := range errs {
					all = append(all, func() { errs[i] = p.log.Record(p.ctx, e) })
				}
				suite.Together(all...)
				ok(errors.Join(errs[:]...))
				p.wantEntries(e.Run, e)
			}
		},
	},
	{
		name: "changed-race",
		rule: "of several states of one entry at once one is stored, and the other calls return ErrChanged",
		check: func(p *probe) {
			for range races {
				run := newRun()
				var errs [3]error
				var entries []turnlog.Entry
				var all []func()
				for i := range errs {
					e := entry(run, turnlog.ToolReceived, 0)
					e.State = json.RawMessage(fmt.Sprint(i))
					entries = append(entries, e)
					all = append(all, func() { errs[i] = p.log.Record(p.ctx, e) })
				}
				suite.Together(all...)
				stored := 0
				for i, err := range errs {
					if err == nil {
						stored++
						p.wantEntries(run, entries[i])
					} else {
						want(err, turnlog.ErrChanged)
					}
				}
				if stored != 1 {
					fail("%d of 3 states are stored", stored)
				}
			}
		},
	},
	{
		name: "record-race",
		rule: "several entries of one new run at once are all stored",
		check: func(p *probe) {
			for range races {
				run := newRun()
				var errs [4]error
				var entries []turnlog.Entry
				var all []func()
				for i := range errs {
					entries = append(entries, entry(run, turnlog.ToolReceived, i))
					all = append(all, func() { errs[i] = p.log.Record(p.ctx, entries[i]) })
				}
				suite.Together(all...)
				ok(errors.Join(errs[:]...))
				p.wantEntries(run, entries...)
			}
		},
	},
}
