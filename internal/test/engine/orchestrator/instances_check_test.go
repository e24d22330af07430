package orchestrator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A witness notes the answers and the events.
type witness struct {
	mu        sync.Mutex           // protects following fields
	told      map[string][]*told   // by session
	delivered map[string][]*Result // by session
	lives     map[string]life      // by run
	settlers  map[string][]lock.Fence
	wrong     []string
}

func newWitness() witness {
	return witness{
		told: make(map[string][]*told), delivered: make(map[string][]*Result),
		lives: make(map[string]life), settlers: make(map[string][]lock.Fence),
	}
}

func (w *witness) errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *witness) input(session string, in *told) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told[session] = append(w.told[session], in)
}

func (w *witness) delivery(r *Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delivered[r.Session] = append(w.delivered[r.Session], r)
}

// watching sends a request. It finds runs that settle although they have ended and not begun again since.
func (w *witness) watching(r faulttest.Call, send func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		before := w.asked(r)
		err := send(ctx)
		if err == nil {
			w.answered(r, before)
		}
		return err
	}
}

// A life is how often a run has begun, and whether it has ended since.
type life struct {
	begun int
	over  bool
}

// asked returns the life of a run at the time of a request.
func (w *witness) asked(r faulttest.Call) life {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Method == "Begin" {
		w.lives[r.Run] = life{begun: w.lives[r.Run].begun + 1}
	}
	return w.lives[r.Run]
}

// answered notes the effect of a request, unless the run has begun again meanwhile.
func (w *witness) answered(r faulttest.Call, before life) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.lives[r.Run]
	switch {
	// An answer that came during this Begin may be about the life before.
	case r.Method == "Begin":
		w.lives[r.Run] = life{begun: now.begun + 1}
	case r.Method == "Append" && before.over && now == before:
		w.wrong = append(w.wrong, fmt.Sprintf("%s: run %s has ended, and is settled", r.Session, r.Run))
	// If another owner settled the run, a late Begin has brought it back.
	case r.Method == "Save" && r.Status == snapshot.Ended && now == before && len(w.settlers[r.Run]) == 0:
		w.lives[r.Run] = life{now.begun, true}
	}
	if r.Method == "Append" && !slices.Contains(w.settlers[r.Run], r.Fence) {
		w.settlers[r.Run] = append(w.settlers[r.Run], r.Fence)
	}
}

// violations compares the answers with the stored turns.
func (f *fleet) violations(t *testing.T) []string {
	t.Helper()
	for n := range fleetSessions {
		session := nameOf(n)
		h := transcript{witness: &f.witness, session: session, turns: make(map[string]*Result)}
		for res, err := range f.instances[0].serving(session).Turns(t.Context(), session) {
			if err != nil {
				t.Fatal(err)
			}
			h.kept = append(h.kept, res)
		}
		slices.Reverse(h.kept)
		h.chain()
		h.inputs()
		h.order()
		if n%2 == 1 {
			h.deliveries()
		}
	}
	return f.witness.wrong
}

// A transcript is the turns of a session.
type transcript struct {
	*witness
	session string
	kept    []*Result
	turns   map[string]*Result // by input
}

func (h *transcript) errorf(format string, args ...any) {
	h.witness.errorf("%s: %s", h.session, fmt.Sprintf(format, args...))
}

// chain checks that each turn is the earlier state and the notes of its own input, and that no input is in two turns.
func (h *transcript) chain() {
	var before []string
	shared := false // its predecessor has several settlers
	for n, res := range h.kept {
		said := res.State.Said
		switch same := common(said, before, shared); {
		case res.Turn != n:
			h.errorf("turn %d is numbered %d", n, res.Turn)
		case same < len(before):
			h.errorf("turn %d does not start from the one before: it has %q, and not %q", n, said[same:], before[same:])
		default:
			h.notes(res, said[same:])
		}
		if first := h.turns[res.Input.Text]; first != nil {
			h.errorf("%q is settled as turn %d and as turn %d", res.Input.Text, first.Turn, res.Turn)
		}
		h.turns[res.Input.Text] = res
		before, shared = said, h.shared(res)
	}
}

// shared reports whether several owners were told that they have settled a run. Each has a result of its own. An owner
// that was stopped on the way does not know that the store kept another result.
func (h *transcript) shared(res *Result) bool { return len(h.settlers[res.RunID]) > 1 }

// common returns the number of equal notes at the start of two states. In shared runs, the last word of a note differs.
func common(a, b []string, shared bool) int {
	n := 0
	for n < len(a) && n < len(b) && (a[n] == b[n] || shared && text(a[n]) == text(b[n])) {
		n++
	}
	return n
}

func text(note string) string { return note[:strings.LastIndexByte(note, ' ')] }

func (h *transcript) notes(res *Result, notes []string) {
	ok := len(notes) == notesOf(res.Input)
	for i, note := range notes {
		ok = ok && text(note) == fmt.Sprintf("%s %d", res.Input.Text, i)
	}
	if !ok {
		h.errorf("turn %d of %q has the notes %q", res.Turn, res.Input.Text, notes)
	}
}

// inputs checks that the stored turns are the turns that clients were told.
func (h *transcript) inputs() {
	said := make(map[string]bool)
	for _, in := range h.told[h.session] {
		said[in.Text] = true
		turn := h.turns[in.Text]
		switch {
		case turn != nil && in.failed:
			h.errorf("%q was told as failed, and is settled as turn %d", in.Text, turn.Turn)
		case turn == nil && in.res != nil:
			h.errorf("%q was told as turn %d, and is lost", in.Text, in.res.Turn)
		case in.res != nil:
			h.same("told", in.res, turn)
		}
	}
	for text, res := range h.turns {
		if !said[text] {
			h.errorf("nobody has said %q, which is turn %d", text, res.Turn)
		}
	}
}

// same compares a result with the stored turn.
func (h *transcript) same(how string, res, kept *Result) {
	switch {
	case h.shared(res):
	case res.RunID != kept.RunID || res.Turn != kept.Turn:
		h.errorf("%q is %s as turn %d, and %q is kept as turn %d", res.Input.Text, how, res.Turn, kept.Input.Text,
			kept.Turn)
	case !slices.Equal(res.State.Said, kept.State.Said):
		same := common(res.State.Said, kept.State.Said, false)
		h.errorf("turn %d is %s with %q, and kept with %q", res.Turn, how, res.State.Said[same:],
			kept.State.Said[same:])
	}
}

// order checks the order of turns: if one input was answered before another was sent, its turn comes first.
func (h *transcript) order() {
	inputs := h.told[h.session]
	for i, first := range inputs {
		for _, second := range inputs[i+1:] {
			a, b := h.turns[first.Text], h.turns[second.Text]
			if first.res != nil && a != nil && b != nil && first.answered < second.sent && a.Turn > b.Turn {
				h.errorf("%q was answered before %q was sent, and is turn %d after turn %d", first.Text, second.Text,
					a.Turn, b.Turn)
			}
		}
	}
}

// deliveries checks that each turn is delivered, for the first time after its predecessor was.
func (h *transcript) deliveries() {
	next := 0
	for _, res := range h.delivered[h.session] {
		switch {
		case res.Turn > next:
			h.errorf("turn %d is delivered before turn %d", res.Turn, next)
		case res.Turn == next:
			next++
		}
		if res.Turn < len(h.kept) {
			h.same("delivered", res, h.kept[res.Turn])
		}
	}
	if next < len(h.kept) {
		h.errorf("of %d turns %d are delivered", len(h.kept), next)
	}
}
