package orchestrator

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Options are where the bot runs; nil means a bot that lives and dies with its process.
type Options struct {
	Snapshots     snapshot.Store                                                       // nil: a turn does not survive its process
	Locker        lock.Locker                                                          // nil: waiters of other processes poll the checkpoint store
	History       func(ctx context.Context, session string) ([]message.Message, error) // also on resume; nil: none
	KeepSnapshots int                                                                  // settled turns kept of each session; 0 means 100, checkpoint.KeepAll all
	OnInterrupted OnInterrupted
	Compaction    Compaction
	Limits        Limits
	Logger        *slog.Logger // nil means slog.Default()

	// LogError returns what log records say of an error. If it is nil, they say what a store or a driver says, and of an
	// error that a function of the bot returned its types only: its text may repeat what a user said. error.Error logs
	// every text.
	LogError func(error) string
}

// OnInterrupted says what an input does that finds an earlier one still in flight.
type OnInterrupted int

const (
	ResumeFirst  OnInterrupted = iota // the earlier one is finished as its own turn, then the new one runs
	Reject                            // ErrInterrupted
	AbandonFirst                      // the earlier one ends without a turn; one that is suspended is ErrSuspended all the same
)

// Limits bound what a turn may take.
type Limits struct {
	Iterations    int           // of a turn; 0 means 10
	FanOut        int           // intents at once; 0 means 10
	Attempts      int           // before a run is parked; 0 means 5
	TurnTimeout   time.Duration // 0: none
	LockWait      time.Duration // for the session; 0 means 30s
	LeaseTTL      time.Duration // 0 means 30s
	SettleTimeout time.Duration // of the end of a turn, of Deliver, and how long a function may ignore its context; 0 means 10s

	// Input bounds text and data of an input, together; 0 means 1 MiB, and 15 MiB is the most. A larger input is an
	// *InputError before anything runs. Counted are the bytes of the shortest JSON: a line feed or a quote in the
	// text counts two, white space between values nothing, a number as many as it has without exponent. Data is
	// nested 998 deep at most.
	Input int

	// State bounds a state, counted likewise; 0 means 4 MiB, and 15 MiB is the most. A turn that leaves a larger one
	// fails with a *StateError, when it settles or when the state is saved. The session stays as it was before that
	// turn.
	State int
}

func (l Limits) orDefaults() Limits {
	l.Iterations = cmp.Or(l.Iterations, 10)
	l.FanOut = cmp.Or(l.FanOut, 10)
	l.Attempts = cmp.Or(l.Attempts, 5)
	l.LockWait = cmp.Or(l.LockWait, 30*time.Second)
	l.LeaseTTL = cmp.Or(l.LeaseTTL, 30*time.Second)
	l.SettleTimeout = cmp.Or(l.SettleTimeout, 10*time.Second)
	l.Input = cmp.Or(l.Input, 1<<20)
	l.State = cmp.Or(l.State, 4<<20)
	return l
}

// faults names what cannot be meant.
func (l Limits) faults() []string {
	var faults []string
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Iterations", int64(l.Iterations)},
		{"FanOut", int64(l.FanOut)},
		{"Attempts", int64(l.Attempts)},
		{"TurnTimeout", int64(l.TurnTimeout)},
		{"LockWait", int64(l.LockWait)},
		{"LeaseTTL", int64(l.LeaseTTL)},
		{"SettleTimeout", int64(l.SettleTimeout)},
		{"Input", int64(l.Input)},
		{"State", int64(l.State)},
	} {
		if n.value < 0 {
			faults = append(faults, "Limits."+n.name+" is negative")
		}
	}
	if l.LeaseTTL > 0 && l.LeaseTTL < minLeaseTTL {
		faults = append(faults, "Limits.LeaseTTL is shorter than "+minLeaseTTL.String())
	}
	if l.LeaseTTL > maxLeaseTTL {
		faults = append(faults, "Limits.LeaseTTL is longer than "+maxLeaseTTL.String())
	}
	if l.SettleTimeout > 0 && l.SettleTimeout < minSettleTimeout {
		faults = append(faults, "Limits.SettleTimeout is shorter than "+minSettleTimeout.String())
	}
	if l.Input > mostInput {
		faults = append(faults, "Limits.Input is more than "+strconv.Itoa(mostInput))
	}
	if l.State > mostState {
		faults = append(faults, "Limits.State is more than "+strconv.Itoa(mostState))
	}
	return faults
}

// minLeaseTTL leaves room to renew: stores count leases in microseconds, networks do not.
const (
	minLeaseTTL      = 10 * time.Millisecond
	maxLeaseTTL      = 24 * time.Hour // for so long a crash keeps a session
	minSettleTimeout = time.Millisecond
)

// CallOptions serve Execute, Stream and Resume.
type CallOptions struct {
	Force bool // in spite of drift (the state is unmarshaled as it is) or parking (no attempt is counted)

	// OnEvent is called for each event of the call, one at a time, in order. The turn does not wait for it. The call
	// returns when OnEvent has had all events, or gives up: when one event takes longer than Limits.SettleTimeout,
	// or all take so long after ctx has ended. Events that it is too slow for are joined, and dropped, as those of
	// Stream.Events.
	OnEvent func(Event)
}
