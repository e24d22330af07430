package workflowmodel

// The bounds that the types have. A scenario may be smaller.
const (
	mostRuns    = 2
	mostVerbs   = 4
	mostSignals = 2
	processes   = 2

	mostUnanswered = 3
)

// Who owns a run: nobody, process 1, process 2, or a process that has died.
const (
	nobody = 0
	dead   = processes + 1
)

// The statuses of a run.
const (
	absent uint8 = iota
	running
	completed
	cancelled
)

// When a run is due. All durations are one tick of the clock, so a deadline is in the future or has passed.
const (
	never uint8 = iota
	later
	now
)

// The outcomes of a journal row.
const (
	none uint8 = iota
	open
	done
	timedOut
	late
)

// A fence is a lock.Fence. Nonces are small numbers.
type fence struct{ epoch, nonce uint8 }

// A row is a journal row.
type row struct {
	outcome uint8
	value   uint8 // of a step, what it returned; of a wait, the signal
	future  bool  // its deadline is in the future
}

func (r row) final() bool { return r.outcome == done || r.outcome == timedOut }

// A run is what the store has of a run.
type run struct {
	status, owner, due uint8
	paused, waits      bool
	fence              fence
	mail               uint8
	box                [mostSignals]uint8 // signals in the order in which they came
	taken              uint8              // a bit for each signal that a wait has taken
	rows               [mostVerbs]row
}

// place returns the verb that the journal says is next.
func place(rows *[mostVerbs]row, body []verb) int {
	for i := range body {
		if !rows[i].final() {
			return i
		}
	}
	return len(body)
}

// untaken returns the signals that no wait has taken, the oldest first.
func (r *run) untaken() (box [mostSignals]uint8) {
	n := 0
	for _, s := range r.box {
		if s != 0 && r.taken&(1<<s) == 0 {
			box[n] = s
			n++
		}
	}
	return box
}

// counted returns the mail as an owner counts it: in the journal and in the mailbox.
func (r *run) counted(body []verb) (n uint8) {
	for _, s := range r.untaken() {
		if s != 0 {
			n++
		}
	}
	for i, v := range body {
		if v == wait && r.rows[i].outcome == done {
			n++
		}
	}
	return n
}

// A phase is where a process is with a run.
type phase uint8

const (
	away    phase = iota // it does not have the run
	loading              // it reads the journal and the mailbox
	calling              // a step runs
	writing              // it writes an entry until it is answered
)

// An entry is what a process writes.
type entry uint8

const (
	flush    entry = iota + 1 // stay: outcomes before the next step begins
	timeOut                   // stay: the wait has timed out
	keep                      // stay: what a refused park would have written
	parkWait                  // park until a signal comes, or the deadline
	parkIdle                  // park until the deadline
	giveBack                  // park until now
	end                       // the run is completed
	record                    // outcomes that came too late
)

// stays reports whether the entry leaves the run with its owner.
func (e entry) stays() bool { return e <= keep }

// compares reports whether the store compares the mail.
func (e entry) compares() bool { return e == timeOut || e == parkWait }

// A stay is a run in a process.
type stay struct {
	phase   phase
	entry   entry
	fence   fence
	mail    uint8
	box     [mostSignals]uint8
	view    [mostVerbs]row // what the body has seen, or will see
	held    uint8          // a bit for each row that is not durable yet
	refused bool           // it reads again within a wait, and not from the top
}

// A process has runs, and nonces of claims and starts without an answer.
type process struct {
	stays      [mostRuns]stay
	unanswered [mostUnanswered]question // a scenario that loses more has no room
	counted    uint8                    // how many owners it has counted, and 1
}

// A question is about what a process may own under a nonce. asked is the nonce of the claim that asks it, if the claim
// had no answer: from then on it is asked with this nonce alone.
type question struct{ nonce, asked uint8 }

// A letter is a request that its sender has given up, and that may still arrive.
type letter struct {
	kind    move
	process uint8 // 1 or 2, or dead if its sender has died
	run     uint8
	nonce   uint8
	again   uint8
	signal  uint8
	stay    stay
}

// A seen is what an observer knows. No crash makes it forget.
type seen struct {
	start    uint8                // 0 not sent, 1 without an answer, 2 answered
	sent     [mostSignals]receipt // by the client
	consumed [mostSignals]uint8   // the place, plus 1, of the wait that a signal woke
	acked    [mostVerbs]row       // rows of writes that were answered
	acted    [mostVerbs]row       // what the body had seen when a later step began
	value    [mostVerbs]uint8     // what the step returned last
	ended    bool                 // the end was answered
	stopped  bool                 // a cancel was answered
}

// A receipt is what the client knows of a signal.
type receipt uint8

const (
	unsent receipt = iota
	unanswered
	consumed
	kept
	over
)

// spent counts what has happened of what a scenario bounds.
type spent struct{ crash, outage, lost, delay, suspect, cancel, pause, resume, hand uint8 }

// A state is everything. It is comparable.
type state struct {
	runs    [mostRuns]run // what the store has
	durable [mostRuns]run // what it has after a crash of the server
	process [processes]process
	letter  letter
	seen    [mostRuns]seen
	family  family
	spent   spent
}
