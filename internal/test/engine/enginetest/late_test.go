package enginetest

import "testing"

// b and c start at the same time. The machine may run c late: the process has stopped beside b, and knows by now that
// it has lost the session. That is no fault of the engine. It is one if no branch had begun before the process
// stopped.
func TestLateBranch(t *testing.T) {
	for _, test := range []struct {
		name    string
		begun   bool // b had begun when the process stopped
		accused bool
	}{{"c beside b", true, false}, {"c after the stop", false, true}} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(Stores{}, "bot", bot{iterate: true})
			r := w.runLocked("run")
			r.known, r.begun = true, true
			p := w.process("P1", fault{kind: stall, name: "save", n: 1})
			if test.begun {
				p.starts("run", 1, "b")
			}
			if k := p.arrive("save"); k != stall {
				t.Fatalf("the process does not stop: %v", k)
			}
			p.learns()
			r.kept = true // by another process
			p.starts("run", 1, "c")
			if got := len(w.wrong) > 0; got != test.accused {
				t.Errorf("c starts: accused %v, want %v: %v", got, test.accused, w.wrong)
			}
		})
	}
}
