package orchestrator

import (
	"context"
	"time"
)

// Compaction keeps histories short. The zero Compaction never runs. Compaction follows a settled turn, under the
// session's lease and a deadline of its own.
//
// An error of Compaction is logged and fails no turn. Compaction is tried again after the next turn. If it did not end
// in time, it is not tried again before a pause, which doubles each time. The event Compacted has its usage; the turn
// is settled by then.
type Compaction struct {
	// After is the number of unsummarized turns that makes Compaction due.
	After int

	// Due is asked instead of After, if it is not nil: first about the range as it was a turn ago, then about the range
	// as it is.
	Due func(context.Context, Range) bool

	// Keep is the number of newest turns that are left alone. 0 means 8.
	Keep int

	// Run summarizes a range and replaces it in your message store. After a crash it gets the same range again.
	Run     func(context.Context, Range) (Usage, error)
	Timeout time.Duration // of Due and Run together; 0 means a minute
}

// A Range is the turns From to Through of a session, both included. If the same range comes again, its ID is the same.
type Range struct {
	ID, Session   string
	From, Through int
}

func (c Compaction) orDefaults() Compaction {
	if c.Keep == 0 {
		c.Keep = 8
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	return c
}

func (c Compaction) faults() []string {
	var faults []string
	if c.After < 0 || c.Keep < 0 || c.Timeout < 0 {
		faults = append(faults, "Compaction has a negative field")
	}
	if (c.After > 0 || c.Due != nil) && c.Run == nil {
		faults = append(faults, "Compaction.Run is missing")
	}
	return faults
}
