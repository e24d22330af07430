package chaostest

import (
	"testing/synctest"
	"time"
)

// Time passes in quanta. Every random pause of the engine is shorter than one quantum. So a goroutine that pauses has
// come back by the next step, however long its pause was, and a seed always makes the same history.
const (
	leaseTTL      = 64
	lockWait      = 60
	settleTimeout = 18
	turnTimeout   = 30
)

// A clock is how the scheduler waits.
type clock struct {
	quantum time.Duration
	virtual bool
	settle  func() // waits until every process waits for the scheduler, or for time to pass
}

// bubbleClock is that of a synctest bubble.
func bubbleClock() clock {
	return clock{quantum: 500 * time.Millisecond, virtual: true, settle: synctest.Wait}
}

// wallClock cannot know whether all processes wait. It gives them a moment.
func wallClock() clock {
	return clock{quantum: 20 * time.Millisecond, settle: func() { time.Sleep(300 * time.Microsecond) }}
}

// pass lets so many quanta pass.
func (c clock) pass(quanta int) { time.Sleep(time.Duration(quanta) * c.quantum) }
