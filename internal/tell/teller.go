package tell

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A teller turns events into calls of a protocol. It keeps what is begun and has not ended, because every protocol asks
// for both ends.
//
// A text is void if its attempt fails, or if its function begins again: after a takeover another process runs the
// iteration anew.
type teller struct {
	to    Protocol
	run   string // begins the ids
	turn  string // the run that is told
	begun bool
	tools []string
	part  func(turnhttp.Part) turnhttp.Part

	iteration int
	doing     []*Doing
	words     []*Words
	count     int // of texts and intents, for their ids

	// told are the texts that have ended and are not void. The protocol may have to retract them.
	told []*Words

	calls []*Call // of tools, that are not void
}

// A function is a function of the bot that can emit: an intent, one item of it, or a router ("").
type function struct {
	intent string
	item   int
}

func of(ev orchestrator.Event) function { return function{ev.Intent, ev.Item} }

// A Doing is an intent that has begun.
type Doing struct {
	function
	ID   string
	Name string // with the number of its item
	Tool bool
}

// Intent returns the name without the number, and the number.
func (d *Doing) Intent() (name string, item int) { return d.intent, d.item }

// Words are a text that has begun.
type Words struct {
	function
	ID        string
	iteration int
	attempt   int
	said      strings.Builder
	gap       bool // something is missing
}

// Mark returns the mark of the text.
func (w *Words) Mark(void bool) Mark {
	return Mark{Intent: w.intent, Item: w.item, Iteration: w.iteration, Attempt: w.attempt, Void: void}
}

// A Mark is metadata that this module adds to a text, under its own name.
type Mark struct {
	Intent    string `json:"intent,omitempty"`
	Item      int    `json:"item,omitempty"`
	Iteration int    `json:"iteration"`
	Attempt   int    `json:"attempt,omitempty"`

	// Void says that the text is not part of the reply: a later attempt says it anew.
	Void bool `json:"void,omitempty"`
}

// event tells of an event.
func (t *teller) event(ev orchestrator.Event) {
	if ev.RunID == "" || ev.Kind == orchestrator.TurnRefused {
		return
	}
	t.begin(ev.RunID)
	if t.turn != ev.RunID { // the next turn of a Show
		t.endAll("")
		t.turn, t.iteration = ev.RunID, 0
	}
	switch ev.Kind {
	case orchestrator.TurnResumed:
		t.resumed(ev)
		return
	case orchestrator.Routed, orchestrator.IntentStarted, orchestrator.Token, orchestrator.Part,
		orchestrator.IntentEnded:
		t.reach(ev.Iteration)
	}
	switch ev.Kind {
	case orchestrator.IntentStarted:
		t.again(of(ev))
		t.start(ev)
	case orchestrator.Token:
		t.token(ev)
	case orchestrator.Part:
		t.show(ev)
	case orchestrator.IntentEnded:
		if ev.Err != nil {
			t.end(of(ev), hasFailed)
		} else {
			t.end(of(ev), "")
		}
	}
}

// begin begins the answer, once.
func (t *teller) begin(run string) {
	if !t.begun {
		t.begun, t.run = true, cmp.Or(t.run, run)
		t.to.Begin(t.run)
		t.to.Iteration()
	}
}

// resumed tells that the turn goes on at an iteration, in this process or another.
func (t *teller) resumed(ev orchestrator.Event) {
	t.again(function{})
	if ev.Iteration >= t.iteration {
		t.reach(ev.Iteration)
		return
	}
	t.endAll(beginsAnew)
	t.void(beginsAnew, func(_ function, iteration int) bool { return iteration >= ev.Iteration })
	for _, w := range t.told {
		if w.iteration >= ev.Iteration {
			t.to.Retract(w)
		}
	}
	t.told = slices.DeleteFunc(t.told, func(w *Words) bool { return w.iteration >= ev.Iteration })
	t.iteration = ev.Iteration
	t.to.Iteration()
}

// reach ends the iterations before n.
func (t *teller) reach(n int) {
	if n > t.iteration {
		t.endAll("")
		t.iteration = n
		t.to.Iteration()
	}
}

// What a front end shows of an intent that has brought nothing.
const (
	hasFailed  = "It failed."
	beginsAnew = "It begins anew."
	isUnknown  = "It is not known yet whether it happened."
	didNotEnd  = "It did not end."
)

// endAll ends all that was begun. fault says why nothing of it is part of the reply; "" means that all of it is.
func (t *teller) endAll(fault string) {
	for len(t.doing) > 0 {
		t.endDoing(0, fault)
	}
	for len(t.words) > 0 {
		t.endWords(0, fault != "")
	}
	if fault != "" {
		t.unanswered(fault)
	}
}

// again makes void what f has begun in this iteration: f begins anew.
func (t *teller) again(f function) {
	t.end(f, beginsAnew)
	t.void(beginsAnew, func(of function, iteration int) bool { return of == f && iteration == t.iteration })
	for _, w := range t.told {
		if w.function == f && w.iteration == t.iteration {
			t.to.Retract(w)
		}
	}
	t.told = slices.DeleteFunc(t.told, func(w *Words) bool { return w.function == f && w.iteration == t.iteration })
}

// end ends what f has begun, as endAll does.
func (t *teller) end(f function, fault string) {
	if i := slices.IndexFunc(t.doing, func(d *Doing) bool { return d.function == f }); i >= 0 {
		t.endDoing(i, fault)
	}
	if i := slices.IndexFunc(t.words, func(w *Words) bool { return w.function == f }); i >= 0 {
		t.endWords(i, fault != "")
	}
	if fault != "" {
		t.void(fault, func(of function, iteration int) bool { return of == f && iteration == t.iteration })
	}
}

func (t *teller) endDoing(i int, fault string) {
	t.to.Ended(t.doing[i], fault)
	t.doing = slices.Delete(t.doing, i, i+1)
}

func (t *teller) endWords(i int, void bool) {
	w := t.words[i]
	t.to.Close(w, void)
	t.words = slices.Delete(t.words, i, i+1)
	if !void {
		t.told = append(t.told, w)
	}
}

func (t *teller) start(ev orchestrator.Event) {
	d := &Doing{function: of(ev), ID: t.id(), Name: ev.Intent, Tool: slices.Contains(t.tools, ev.Intent)}
	if ev.Item > 0 {
		d.Name += " " + strconv.Itoa(ev.Item)
	}
	t.doing = append(t.doing, d)
	t.to.Intent(d)
}

func (t *teller) token(ev orchestrator.Event) {
	i := slices.IndexFunc(t.words, func(w *Words) bool { return w.function == of(ev) })
	if i >= 0 && t.words[i].attempt != ev.Attempt { // the event between them was dropped
		t.endWords(i, true)
		i = -1
	}
	if i < 0 {
		t.words = append(t.words, t.text(&Words{function: of(ev), iteration: ev.Iteration, attempt: ev.Attempt}))
		i = len(t.words) - 1
	}
	w := t.words[i]
	w.gap = w.gap || ev.Dropped > 0
	if ev.Delta != "" {
		w.said.WriteString(ev.Delta)
		t.to.Say(w, ev.Delta)
	}
}

// text begins a text.
func (t *teller) text(w *Words) *Words {
	w.ID = t.id()
	t.to.Text(w)
	return w
}

// id returns the next id of a text or an intent. The same events always get the same ids.
func (t *teller) id() string {
	t.count++
	return t.run + "-" + strconv.Itoa(t.count)
}

// conclude tells the reply. What was told of it already is not told again.
func (t *teller) conclude(r Reply) {
	t.endAll("")
	if len(r.Questions) == 0 { // else the turn waits, and so may its calls
		t.unanswered(didNotEnd)
	}
	if !t.hasSaid(r.Text) {
		if n := len(t.told); n > 0 && t.told[n-1].gap {
			t.to.Retract(t.told[n-1])
		}
		w := t.text(&Words{iteration: t.iteration})
		t.to.Say(w, r.Text)
		t.to.Close(w, false)
	}
	t.to.Finish(r)
}

// hasSaid reports whether the newest texts together say text.
func (t *teller) hasSaid(text string) bool {
	said := ""
	for _, w := range slices.Backward(t.told) {
		if said = w.said.String() + said; len(said) >= len(text) {
			break
		}
	}
	return text == "" || said == text
}
