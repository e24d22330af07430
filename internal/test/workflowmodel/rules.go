package workflowmodel

// A verb is what a body calls.
type verb uint8

const (
	step verb = iota
	wait      // with a timeout, or until a signal comes
	sleep
)

// A Scenario bounds what happens.
type Scenario struct {
	name    string
	runs    int
	body    []verb
	front   bool // process 1 starts the runs and owns them; otherwise they are there, and due
	family  bool // run 1 is a child that a client starts, and run 0 is its parent
	signals int  // to each run
	limit   int  // how many runs may have an owner at once; 0 is none

	crash, outage, lost, delay, suspect  uint8 // faults: of processes and of the server, answers, requests, false alarm
	cancels, pauses, resumes, handedBack uint8
	rules                                Rules
}

// Rules change the protocol. The zero value is the protocol.
type Rules struct {
	noFence           bool // the store compares no fence
	noFenceOfSteps    bool // a write that stays is not fenced: who is judged dead does not write
	noNonce           bool // the store compares epochs alone
	claimKeepsEpoch   bool
	cancelKeepsEpoch  bool
	pauseKeepsEpoch   bool
	takeoverKeeps     bool // a takeover gets the fence of the owner before
	noMailAtPark      bool
	noMailAtTimeout   bool
	repeatIsRefused   bool // a park or an end that was written is refused when it comes again
	parkForgets       bool // a park with a deadline is due never
	signalSleeps      bool // a signal does not make the run due
	signalTwice       bool // the store forgets the ids of signals that were taken
	deadlineMoves     bool // an open row that is written again gets another deadline
	lateCounts        bool // a late outcome is written like any other
	holdIsIgnored     bool // a claim takes a paused run
	startIsNotDurable bool
	refusalIsNotFirm  bool // what a refusal rests on may be undone by a crash
	writeIsNotDurable bool
	sendIsNotDurable  bool

	parentIsFree bool // the start of a child looks at its parent, and does not lock it
	oneStatement bool // a cancel finds the children by the statement that has waited for its run
	countsFirst  bool // a claim counts the owners, and takes its runs when others may have claimed since
	heldBack     bool // a takeover needs a place within the limit

	noAgain       bool // nobody asks for what a claim without an answer has claimed
	againOnce     bool // it is asked for once
	againSame     bool // a question gives what it gets the nonce that it asks for
	againForgets  bool // what a question without an answer has got is not asked for
	againAdopts   bool // it is asked for, although some of it was adopted
	noFlush       bool // a step begins before the outcome of the step before is written
	deadlineFirst bool // a wait looks at its deadline before it looks at its mailbox
	wakesEarly    bool // a sleep ends when its run is claimed
	noReread      bool // a wait that is refused reads its mailbox again, and not its row
}
