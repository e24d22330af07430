package enginetest

// The laws hold at every fault.
const (
	Begun = "nothing of a turn runs before it has begun, or after it has ended, " +
		"and it settles only if all of it ran"
	Saved    = "what was saved, and acknowledged, does not run again"
	Once     = "a turn that was accepted, and has not ended, settles exactly once, others never"
	Whole    = "turns have no gaps, and each is applied whole to the one before"
	Kept     = "what a caller got, or Deliver, is the turn that is kept"
	Accepted = "the end of the caller's context ends no turn that has begun, " +
		"and what was abandoned or deleted is not in flight"
	Failed    = "a turn that was told as failed has not settled, and does not"
	Delivered = "every turn is delivered, for the first time in order, and once unless the fault was there"
	Paid      = "an effect happens once, as far as its class can know, and Once returns what it brought"
	Unowned   = "no effect is issued for a run that was told as failed or abandoned, none is in doubt for one that " +
		"was told as failed, and none is Issued in the end"
	Logged = "the turn log has one beginning and one end of each run, in order, before what follows them, " +
		"and they say what became of the run"
	Idle    = "in the end nothing is in flight, owed or owned"
	Healed  = "a fault that a repeat can heal is not told"
	Healthy = "a healthy process does what it is asked"
)

// A Wrong is a broken law, and how it was broken.
type Wrong struct {
	Law string
	Err error
}
