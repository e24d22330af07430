package chaostest

// The laws hold in every history.
const (
	Kept      = "what was told as a Result is the turn that was settled, and it is kept until it is pruned or deleted"
	Failed    = "an input that was told as failed or refused is not settled, unless it was sent again"
	Once      = "a request id settles once, until its turn is pruned"
	Whole     = "turns have no gaps, and each state is the one before and the turn's own notes"
	Delivered = "deliveries come in turn order, at least once, " +
		"and again only if the note of the one before was not taken"
	Deleted  = "after Delete none of the earlier turns is there"
	Innocent = "a session is taken only from an owner that was stopped, " +
		"or by Abandon or Delete while they are under way"
	Peaceful = "a call without a fault and without a competitor learns what became of its turn"
	Idle     = "in the end nothing is in flight, owed or owned"
	Healthy  = "in the end every session takes an input"
	Expected = "an error is one that the documentation names"
)

// A Wrong is a broken law, and how it was broken.
type Wrong struct{ Law, How string }

// String returns how the law was broken, and the law.
func (w Wrong) String() string { return w.How + "\n\tlaw: " + w.Law }
