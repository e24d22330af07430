package main

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
)

// stateBytes is the size of the states, as JSON.
const stateBytes = 4096

// vocabulary is in the order of frequency. So prose made of it compresses like the prose of people: 4 KiB to 2.6 KB
// with lz4 and 2.2 KB with pglz, like as much of the GPL.
const vocabulary = `the to I you it is and a of my your that in not we for have on order this was with be are can
refund but me if will what do has so at they please from just or when would there an about as now been don't all one
know get time how see like why then account card here our out up were help any could sorry day did go which want
shipping email because still I'm back need today it's parcel thank other check only again bank after two number week
before money over yesterday address received item who than sent more some package never already payment delivery
tracking customer amount working days charged twice wrong return label cancel subscription double confirm details
status reference merchant statement balance pending reversed issued credit voucher discount replaced broken missing
size colour warehouse courier Monday Tuesday Friday September morning invoice receipt manager colleague question
answer unfortunately meanwhile understand apologise inconvenience certainly immediately probably usually between
without something everything nothing anybody however although neighbour doorstep signature photograph telephone
password reset browser screenshot attached forwarded escalated investigate department response patience convenience
guarantee warranty expired renewal upgrade downgrade monthly yearly currency exchange euros pounds dollars customs`

// A conversation is the state of a session.
type conversation struct{ Messages [8]said }

type said struct{ Role, Text string }

// prose returns n states as JSON.
func prose(n int) []json.RawMessage {
	states := make([]json.RawMessage, n)
	for i, c := range conversations(n) {
		states[i] = marshal(c)
	}
	return states
}

// conversations returns n states, all different.
func conversations(n int) []conversation {
	words := strings.Fields(vocabulary)
	random := rand.New(rand.NewPCG(1, 2))
	states := make([]conversation, n)
	for i := range states {
		states[i] = converse(words, random)
	}
	return states
}

func converse(words []string, random *rand.Rand) conversation {
	var state conversation
	for i := range state.Messages {
		state.Messages[i].Role = []string{"user", "assistant"}[i%2]
	}
	left := stateBytes - len(marshal(state))
	for i := range state.Messages {
		share := left / (len(state.Messages) - i)
		state.Messages[i].Text = text(share, words, random)
		left -= share
	}
	return state
}

// text takes frequent words more often, because the square of a uniform number is small more often than not.
func text(size int, words []string, random *rand.Rand) string {
	var s strings.Builder
	for s.Len() < size {
		u := random.Float64()
		s.WriteString(words[int(u*u*float64(len(words)))])
		s.WriteByte(' ')
	}
	return s.String()[:size]
}

func marshal(state any) json.RawMessage {
	text, err := json.Marshal(state)
	if err != nil {
		panic(err) // strings always marshal
	}
	return text
}
