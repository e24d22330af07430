package orchestrator

import "testing"

// A call that leaves while the first call answers takes nothing away from the others.
func TestPartWhileAnswering(t *testing.T) {
	var l leaders
	first := &led{request: request{"s", "r"}}
	l.enter(first)
	var joined []*joining
	for range 3 {
		j := &joining{hand: func(Event) {}, answer: make(chan joinedAnswer, 1)}
		if !first.join(j) {
			t.Fatal("the first call has returned")
		}
		joined = append(joined, j)
	}
	_, told := l.leave(first)
	first.part(joined[0])
	for i, j := range told {
		if j != joined[i] {
			t.Errorf("call %d is not told the answer", i)
		}
	}
}
