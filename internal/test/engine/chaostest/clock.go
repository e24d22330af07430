package chaostest

import (
	"testing/synctest"
	"time"
)

// Time passes in quanta. Every random pause of the engine is shorter than one quantum. So a pause is over by the next
// step, however long it was, and a seed always makes the same history.
const (
	leaseTTL      = 64
	lockWait      = 60
	settleTimeout = 18
	turnTimeout   = 30
)

// A clock says how the scheduler waits.
type clock struct {
	quantum time.Duration
	virtual bool
	// settle waits until every process waits for the scheduler or for time to pass.
	settle func()
}

// bubbleClock returns the clock of a synctest bubble.
func bubbleClock() clock {
	return clock{quantum: 500 * time.Millisecond, virtual: true, settle: synctest.Wait}
}

// wallClock returns a clock that cannot know whether all processes wait. It gives them a moment.
func wallClock() clock {
	return clock{quantum: 20 * time.Millisecond, settle: func() { time.Sleep(300 * time.Microsecond) }}
}

// pass lets this many quanta pass.
func (c clock) pass(quanta int) { time.Sleep(time.Duration(quanta) * c.quantum) }
