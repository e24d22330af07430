package bot

import (
	"bytes"
	"encoding/json"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A Shown describes a refund to the person who approves it.
type Shown struct {
	Kind  string `json:"kind"`
	Order string `json:"order"`
	Cents int    `json:"cents"`
	Text  string `json:"text"`
}

// Questions returns what a state asks a person.
func Questions(s *State) (all []turnhttp.Question) {
	for _, p := range s.Proposals {
		all = append(all, turnhttp.Question{
			ID: p.ID, Expires: p.Expires, Shown: Shown{"approval", p.Order, p.Cents, p.Text()},
		})
	}
	return all
}

// Answer returns the input that the answer of a person becomes.
func Answer(q turnhttp.Question, a turnhttp.Answer) (in orchestrator.Input, err error) {
	var said struct {
		Approve *bool `json:"approve"`
	}
	d := json.NewDecoder(bytes.NewReader(a.Data))
	d.DisallowUnknownFields()
	if err := d.Decode(&said); err != nil || said.Approve == nil {
		return in, &orchestrator.InputError{Field: "answer", Reason: `want {"approve":true} or {"approve":false}`}
	}
	in.Text = "A colleague has refused the refund."
	if *said.Approve {
		in.Text = "A colleague has approved the refund."
	}
	in.Data, err = json.Marshal(Approval{Proposal: q.ID, Approve: *said.Approve})
	return in, err
}
