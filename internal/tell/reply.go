package tell

import (
	"encoding/json"

	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// ReplyOf returns what a front end gets of a settled turn, by the Options of a handler: the questions of Questions, and
// what Reply returns. A turnhttp.Reply is used as it is. A string is the text. Of anything else the JSON is the data,
// and its member "text" is the text, if that is a string.
func ReplyOf[S any](o turnhttp.Options[S]) func(*orchestrator.Result[S]) turnhttp.Reply {
	return func(res *orchestrator.Result[S]) (r turnhttp.Reply) {
		switch v := o.Reply(res).(type) {
		case turnhttp.Reply:
			r = v
		case string:
			r.Text = v
		default:
			var said struct {
				Text string `json:"text"`
			}
			if doc, err := json.Marshal(v); err == nil && json.Unmarshal(doc, &said) == nil {
				r.Text = said.Text
			}
			r.Data = v // what is no JSON is an error when the reply is encoded
		}
		if o.Questions != nil && r.Questions == nil {
			r.Questions = o.Questions(&res.State)
		}
		return r
	}
}
