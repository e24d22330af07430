package orchestrator

// A Choice describes an intent to a router.
type Choice struct{ Name, Description string }

// Next says what runs next. The zero Next has no opinion and leaves the decision to the next in this order: Evaluate,
// the intent's Next, First, Route. From Route, the zero Next is an error.
type Next struct {
	// Intents are the names of the intents to run.
	Intents []string

	// End ends the turn; Intents does not matter then.
	End bool

	// Reason is for people. A resumed turn has lost the Reason of its earlier iterations.
	Reason string
}

// End ends the turn.
var End = Next{End: true}

// To runs intents, in parallel if there are several.
func To(intents ...string) Next { return Next{Intents: intents} }

func (n Next) zero() bool { return !n.End && len(n.Intents) == 0 }
