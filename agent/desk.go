package agent

import (
	"encoding/json"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Desk returns the desk of any agent, for a program that has the stores and not the agent: a console, or a command of
// operators. It is for Options.Desk of package ops, with LabelWaiting. bot is of orchestrator.WithoutDefinition. An
// answer that Post leaves is run by a process that has the agent and calls Answers. A state that no agent has settled
// asks nothing.
func Desk(bot *orchestrator.Orchestrator[json.RawMessage], in inbox.Store) *approval.Desk[json.RawMessage] {
	return &approval.Desk[json.RawMessage]{
		Bot: bot, Inbox: in, Answer: questionInput,
		Questions: func(raw *json.RawMessage) []approval.Question {
			var s State[json.RawMessage]
			if json.Unmarshal(*raw, &s) != nil {
				return nil
			}
			return questions(&s)
		},
	}
}
