package bootdrain_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Processes of several deploys serve the same sessions, one after the other and side by side, forwards and back. Some
// are killed in the middle of a turn. No value is lost: each turn begins on what the turn before has left. A process
// that would lose something refuses with a *DriftError, and a process of the other deploy serves the same request. A
// drain calls such a run drift, and counts no attempt. The last deploy removes a field on purpose: then the values of
// this field are gone, and no others.
//
// With HOLDFAST_SOAK=1 each deploy serves more turns.
func TestDeploys(t *testing.T) {
	each := 40
	if soak() {
		each = 110
	}
	sites(t, func(t *testing.T, s site, w opened) {
		d := &deploys{t: t, site: s, stores: w, known: make(map[string]*talked), rng: rand.New(rand.NewPCG(1, 0))}
		turns := 0
		for _, phase := range [][]string{
			{oldest},
			{oldest, added},
			{added},
			{added, oldest}, // back
			{added, renamed},
			{renamed},
			{renamed, added}, // back
			{renamed, removed},
			{removed},
			{removed, renamed}, // back
		} {
			turns += d.play(phase, each)
		}
		t.Logf("%d turns, %d refusals for members, %d for intents, %d processes killed, %d drains called drift",
			turns, d.members, d.intents, d.kills, d.drains)
		if turns < 10*each || d.members == 0 || d.intents == 0 || d.kills < each/6 || d.drains == 0 {
			t.Error("too little happened")
		}
	})
}

// deploys are the processes that serve, and what was said to them.
type deploys struct {
	t       *testing.T
	site    site
	stores  opened
	serving map[string]*child // by definition

	// known has the facts that each session has to know.
	known map[string]*talked

	rng                             *rand.Rand // the same in each run: enough happens
	requests                        int
	members, intents, kills, drains int
}

// talked is the state of a session, in the form of any definition.
type talked struct{ said, notes, tips []string }

// play says something in turns to processes of the definitions of a phase.
func (d *deploys) play(phase []string, turns int) int {
	d.t.Helper()
	d.serving = make(map[string]*child)
	for _, definition := range phase {
		d.start(definition)
	}
	for i := range turns {
		first := phase[i%len(phase)]
		other := phase[(i+1)%len(phase)]
		d.requests++
		// A session that is noted in never fits the oldest definition again: most are not.
		session := d.rng.IntN(24)
		text := fmt.Sprint("say ", d.requests)
		if session%3 == 0 {
			text = fmt.Sprint("note ", d.requests)
		}
		r := request{Session: fmt.Sprint("s", session), Text: text, ID: fmt.Sprint("r", d.requests)}
		if i%11 == 7 && !slices.Contains(phase, removed) { // a run in flight may have the field or not
			d.kill(first, other, r)
			continue
		}
		if !d.say(first, r) && !d.say(other, r) {
			d.t.Fatalf("%s and %s refuse %+v", first, other, r)
		}
	}
	for _, p := range d.serving {
		_ = p.in.Close()
		p.exit()
	}
	return turns
}

func (d *deploys) start(definition string) {
	d.t.Helper()
	d.serving[definition] = job{Do: doServe, Site: d.site, Body: definition}.start(d.t)
}

// ask sends a request to a process. If the process has died of it, ask returns false.
func (d *deploys) ask(definition string, r request) (said reply, lives bool) {
	d.t.Helper()
	p := d.serving[definition]
	line, err := json.Marshal(r)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(p.in, "%s\n", line); err != nil {
		d.t.Fatal(err)
	}
	if !p.out.Scan() {
		return said, false
	}
	if err := json.Unmarshal(p.out.Bytes(), &said); err != nil {
		d.t.Fatalf("%v: %q", err, p.out.Text())
	}
	if said.Err != "" && said.Drift == nil {
		d.t.Fatalf("%s refuses %+v: %s", definition, r, said.Err)
	}
	return said, true
}

// say sends an input and checks the state after the turn. It reports whether the input was not refused.
func (d *deploys) say(definition string, r request) bool {
	d.t.Helper()
	said, lives := d.ask(definition, r)
	switch {
	case !lives:
		d.t.Fatalf("%s has died of %+v", definition, r)
	case said.Drift != nil:
		d.refused(definition, said)
		return false
	}
	k := d.known[r.Session]
	if k == nil {
		k = new(talked)
		d.known[r.Session] = k
	}
	k.said = append(k.said, r.Text)
	if definition != oldest && notes(r.Text) {
		k.notes, k.tips = append(k.notes, r.Text), append(k.tips, "tip for "+r.Text)
	}
	if definition == removed {
		k.notes = nil
	}
	if !slices.Equal(said.Said, k.said) || !slices.Equal(said.Notes, k.notes) || !slices.Equal(said.Tips, k.tips) {
		d.t.Fatalf("%s answers %+v with\n%+v\nafter\n%+v", definition, r, said, *k)
	}
	return true
}

func (d *deploys) refused(definition string, said reply) {
	d.t.Helper()
	switch {
	case len(said.Drift.Intents) > 0:
		d.intents++
	case len(said.Drift.Members) > 0:
		d.members++
	default:
		d.t.Errorf("%s names nothing that it would lose: %s", definition, said.Err)
	}
}

// kill lets a process die in the middle of a turn. Then the other process drains the session, more often than a run is
// tried. What the drain leaves is finished by a process of the first definition.
func (d *deploys) kill(first, other string, r request) {
	d.t.Helper()
	r.DieIn = "listen"
	if first != oldest && d.requests%2 == 0 {
		r.DieIn = "record"
	}
	said, lives := d.ask(first, r)
	r.DieIn = ""
	if lives {
		d.refused(first, said) // it never came to the intent
		if !d.say(other, r) {
			d.t.Fatalf("%s and %s refuse %+v", first, other, r)
		}
		return
	}
	d.kills++
	d.serving[first].killed()
	d.start(first)
	d.stores.free(d.t, r.Session)
	for range attempts + 2 {
		said, _ := d.ask(other, request{Drain: true, Session: r.Session})
		if said.Drift == nil {
			break
		}
		if said.Outcome != "drift" {
			d.t.Errorf("%s drains %+v as %q", other, r, said.Outcome)
		}
		d.drains++
	}
	// If the drain has settled the turn, this is a repeat.
	if !d.say(other, r) && !d.say(first, r) {
		d.t.Fatalf("%s and %s refuse %+v, whose run is in flight", first, other, r)
	}
}
