package agenttest

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
)

// A clause is a test that runs on any stores. Its rows are those of the table in docs/agent.md: a test of package
// archtest compares both.
type clause struct {
	name, rows string
	test       func(*testing.T, agent.Stores)
}

var clauses = []clause{
	{"create-and-update", "H2 H7 H8 H9 H10 H14 H17 H19 H22 H73", createAndUpdate},
	{"versions", "H19 H45 H46 H47", versions},
	{"update-refuses", "H9 H10 H14 H43", updateRefuses},
	{"keep-first", "H43", keepFirst},
	{"keep-first-summed", "H43", keepFirstSummed},
	{"labels-stay", "H20 H21 H24", labelsStay},
	{"sessions-by-label", "H20 H24", sessionsByLabel},
	{"branch", "H5 H52", branch},
	{"mixed-batch", "H18 H28 H64 H65 H66 H68 H69 H70", mixedBatch},
	{"answers", "H64 H68 H69 H70", eachAnswer},
	{"answers-race", "H11 H34", answersRace},
	{"answered-long-ago", "H66", answeredLongAgo},
	{"approval-is-bound", "", approvalIsBound},
	{"deploy-while-paused", "", deployWhilePaused},
	{"large-answers", "", largeAnswers},
	{"out-of-time", "", outOfTime},
	{"asks", "", asks},
	{"ask-declined", "", askDeclined},
	{"ask-halfway", "", askHalfway},
	{"ask-of-child", "", askOfChild},
	{"ask-bad", "", askBad},
	{"ask-out-of-time", "", askOutOfTime},
	{"grandchild", "H28 H59 H60 H61 H67", grandchild},
	{"child-answered", "H62", childAnswered},
	{"drop-family", "", dropFamily},
	{"answer-after-drop", "", answerAfterDrop},
	{"bind", "H55", bind},
	{"bind-later", "H55", bindLater},
	{"circle", "", circle},
	{"refusals", "", refusals},
	{"many-children", "H3 H4", manyChildren},
	{"delete-during-run", "H3 H4", deleteDuringRun},
	{"delete-children", "H3 H4", deleteChildren},
	{"delete-lost-child", "H3 H4", deleteLostChild},
	{"session-expires", "H23", sessionExpires},
	{"stop", "H19 H35 H36 H37 H38 H39 H40 H41", stop},
	{"stop-before-tools", "H26 H27 H37 H41", stopBeforeTools},
	{"stop-in-doubt", "H41", stopInDoubt},
	{"stop-goes-down", "H63", stopGoesDown},
	{"limits", "H53 H54", limits},
	{"finish", "H53 H54", finish},
	{"pending", "H71", pending},
	{"everything-at-once", "", everythingAtOnce},
}

// Run runs all tests but those to be skipped. open returns empty stores.
func Run(t *testing.T, open func(*testing.T) agent.Stores, skipped ...string) {
	t.Helper()
	for _, c := range clauses {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if slices.Contains(skipped, c.name) {
				t.Skip("takes long")
			}
			c.test(t, open(t))
		})
	}
}
