package turnhttp

import (
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A turnDoc is a settled turn.
type turnDoc struct {
	Session  string          `json:"session,omitempty"`
	Turn     int             `json:"turn"`
	Run      string          `json:"run"`
	Request  string          `json:"request,omitempty"`
	Origin   string          `json:"origin,omitempty"`
	Kind     string          `json:"inputKind,omitempty"`
	Reply    json.RawMessage `json:"reply"`
	Replayed bool            `json:"replayed"`
	Failed   bool            `json:"failed,omitempty"`
	Usage    usageDoc        `json:"usage"`
	Steps    []stepDoc       `json:"steps"`
	Saved    time.Time       `json:"saved"`
	Resumed  *turnDoc        `json:"resumed,omitempty"`
}

type usageDoc struct {
	Input  int     `json:"input"`
	Output int     `json:"output"`
	Cost   float64 `json:"cost"`
}

type stepDoc struct {
	Intents []string `json:"intents"`
	End     bool     `json:"end"`
	Took    int64    `json:"ms"`
	Usage   usageDoc `json:"usage"`
}

func usageOf(u orchestrator.Usage) usageDoc { return usageDoc{u.Input, u.Output, u.Cost} }

// turn returns the document of a settled turn. It fails if JSON has no place for what Options.Reply returned.
func (s *server[S]) turn(res *orchestrator.Result[S]) (*turnDoc, error) {
	reply, err := ask("Options.Reply", func() ([]byte, error) { return json.Marshal(s.Reply(res)) })
	if err != nil {
		return nil, err
	}
	doc := &turnDoc{
		Session: res.Session, Turn: res.Turn, Run: res.RunID, Request: res.Input.RequestID,
		Origin: string(res.Input.Origin), Kind: res.Input.Kind, Reply: reply,
		Replayed: res.Replayed, Failed: res.Failed,
		Usage: usageOf(res.Usage),
		Steps: make([]stepDoc, 0, len(res.Steps)),
		Saved: res.SavedAt.UTC(),
	}
	for _, step := range res.Steps {
		intents := step.Next.Intents
		if intents == nil {
			intents = []string{}
		}
		doc.Steps = append(doc.Steps, stepDoc{intents, step.Next.End, step.Took.Milliseconds(), usageOf(step.Usage)})
	}
	if res.Resumed != nil {
		if doc.Resumed, err = s.turn(res.Resumed); err != nil {
			return nil, err
		}
	}
	return doc, nil
}

// A sessionDoc says how a session stands.
type sessionDoc struct {
	Session string    `json:"session"`
	Turn    int       `json:"turn"`
	First   int       `json:"first"`
	Owed    int       `json:"owed"`
	Owner   *ownerDoc `json:"owner,omitempty"`
	Run     *runDoc   `json:"run,omitempty"`

	// Turns are turnDocs, and brokenDocs where a turn cannot be shown.
	Turns []any `json:"turns"`
	More  bool  `json:"more"`
}

type ownerDoc struct {
	ID    string `json:"id"`
	Lease int64  `json:"leaseMs"`
	Beats int64  `json:"beats"`
}

type runDoc struct {
	ID        string    `json:"id"`
	Request   string    `json:"request,omitempty"`
	Kind      string    `json:"inputKind,omitempty"`
	Turn      int       `json:"turn"`
	Attempt   int       `json:"attempt"`
	Iteration int       `json:"iteration"`
	Status    string    `json:"status"`
	Started   time.Time `json:"started"`
	Saved     time.Time `json:"saved"`
	Pause     int64     `json:"pauseMs,omitempty"`
	Effects   []string  `json:"effects,omitempty"`
}

// A brokenDoc is a turn that this process cannot show.
type brokenDoc struct {
	Turn    int           `json:"turn"`
	Problem front.Problem `json:"problem"`
}

// standing returns the document of a session without its turns.
func standing(st orchestrator.Standing) sessionDoc {
	doc := sessionDoc{Session: st.Session, Turn: st.Turn, First: st.First, Owed: st.Owed, Turns: []any{}}
	if st.Owner != "" {
		doc.Owner = &ownerDoc{st.Owner, st.LeaseLeft.Milliseconds(), st.Beats}
	}
	doc.Run = inFlight(st.Run)
	return doc
}

// inFlight returns the document of a run; nil of nil.
func inFlight(r *orchestrator.InFlight) *runDoc {
	if r == nil {
		return nil
	}
	return &runDoc{
		ID: r.ID, Request: r.RequestID, Kind: r.InputKind, Turn: r.Turn, Attempt: r.Attempt,
		Iteration: r.Iteration, Status: string(r.Status), Started: r.Started.UTC(), Saved: r.Saved.UTC(),
		Pause: r.Pause.Milliseconds(), Effects: r.Effects,
	}
}
