package orchestrator

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/snapshot"
)

// docs/design.md draws the stages of a flight and its endings as they are in the code.
func TestMachineIsDrawn(t *testing.T) {
	raw, err := os.ReadFile("../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, drawn := range map[string]string{"stages": drawnStages(), "endings": drawnEndings()} {
		_, rest, found := strings.Cut(string(raw), "<!-- "+what+" of a flight, from the code -->\n\n")
		got, _, end := strings.Cut(rest, "\n<!-- end of the "+what+" -->")
		if !found || !end || got != drawn {
			t.Errorf("docs/design.md does not draw the %s as they are:\n%s", what, drawn)
		}
	}
}

func drawnStages() string {
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart LR\n")
	for from, ways := range stages {
		for _, to := range ways {
			if to != stage(from) {
				fmt.Fprintf(&b, "    %v --> %v\n", stage(from), to)
			}
		}
	}
	b.WriteString("```\n")
	return b.String()
}

func drawnEndings() string {
	var b strings.Builder
	b.WriteString("| cause | the run is | attempt | due again | event | the caller is told |\n")
	b.WriteString("|---|---|---|---|---|---|\n")
	for _, how := range endings {
		status, due, told := string(how.status), "at once", "its error"
		switch {
		case how.event == TurnSettled:
			status, due, told = "gone", "never", "the `Result`, which says `Failed`"
		case status == "":
			status, due = "as it was", "if its owner is gone"
		case how.status == snapshot.Suspended:
			due, told = "once a person has answered", "`ErrSuspended`"
		case how.status == snapshot.Ended:
			due = "never"
		case how.retry:
			due = "after a pause"
		}
		if how.unknown {
			told = "`ErrIndeterminate`"
		}
		attempt := map[counting]string{
			attemptCounts: "counts", attemptFree: "does not count", attemptIfWorked: "counts if a function has run",
			attemptIfNoPause: "counts if the effect asks for no pause",
		}[how.attempts]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s` | %s |\n", how.name, status, attempt, due, how.event, told)
	}
	return b.String()
}

// A flight goes from stage to stage as the table says, and is over once.
func TestStages(t *testing.T) {
	for from := arrived; from <= over; from++ {
		for to := arrived; to <= over; to++ {
			want := from != over && (to == over || slices.Contains(stages[from], to))
			if got := from.leads(to); got != want {
				t.Errorf("%v to %v: %v", from, to, got)
			}
		}
	}
	for s := arrived; s < settling; s++ {
		if len(stages[s]) == 0 {
			t.Errorf("nothing follows %v", s)
		}
	}
}
