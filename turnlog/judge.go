package turnlog

// A Recovery says how to go on with a turn that was cut off, by what a log has of it.
type Recovery string

const (
	// Nothing says that the run is unknown, or was pruned.
	Nothing Recovery = "nothing"
	// Outbound says that the turn has settled: only the reply may be missing.
	Outbound Recovery = "outbound"
	// GoOn says that the model has answered, or a tool was called: go on at the tools, without asking the model again.
	GoOn Recovery = "go on"
	// StartNew says that nothing of consequence has happened: start over from the stored messages.
	StartNew Recovery = "start"
)

// Judge returns the recovery for what Restore has returned. It is a proposal. The engine does not use it: an engine
// with a snapshot store finishes its runs by itself.
func Judge(entries []Entry) Recovery {
	if len(entries) == 0 {
		return Nothing
	}
	found := StartNew
	for _, e := range entries {
		switch e.Phase {
		case Started: // a run that has failed begins anew if its input comes again
			found = StartNew
		case Settled:
			found = Outbound
		case LLMComplete, ToolDispatched, ToolReceived:
			if found != Outbound { // else an owner that was stopped has said it too late
				found = GoOn
			}
		}
	}
	return found
}
