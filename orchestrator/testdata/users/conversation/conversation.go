// Package conversation is a bot that keeps its messages: it loads the history, stores replies, summarizes, remembers.
package conversation

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

type State struct {
	Reply    string
	Memories []string
}

type messages struct {
	mu  sync.Mutex
	all map[string][]message.Message
}

func (m *messages) load(ctx context.Context, session string) ([]message.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all[session]), nil
}

func (m *messages) summarize(ctx context.Context, r orchestrator.Range) (orchestrator.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := slices.IndexFunc(m.all[r.Session], func(msg message.Message) bool { return msg.Turn > r.Through })
	if n > 0 {
		m.all[r.Session] = append([]message.Message{message.System("summary")}, m.all[r.Session][n:]...)
	}
	return orchestrator.Usage{Input: 900}, nil
}

type memory interface {
	Recall(ctx context.Context, scope, text string) ([]string, error)
	Remember(ctx context.Context, scope, id, text string) error
}

func reply(ctx context.Context, t *orchestrator.Turn[State]) error {
	t.State.Reply = "ok"
	return nil
}

func newBot(m *messages, mem memory) (*orchestrator.Orchestrator[State], error) {
	return orchestrator.New(orchestrator.Definition[State]{
		Name: "chat",
		Begin: func(ctx context.Context, t *orchestrator.Turn[State]) (err error) {
			t.State.Memories, err = mem.Recall(ctx, t.Session, t.Input.Text)
			return err
		},
		Intents: orchestrator.Intents[State]{"reply": {Run: reply}},
		Deliver: func(ctx context.Context, r *orchestrator.Result[State]) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if all := m.all[r.Session]; len(all) == 0 || all[len(all)-1].Turn < r.Turn {
				question, answer := message.User(r.Input.Text), message.Assistant(r.State.Reply)
				question.Turn, answer.Turn = r.Turn, r.Turn
				m.all[r.Session] = append(all, question, answer)
			}
			return mem.Remember(ctx, r.Session, r.RunID, r.Input.Text+"\n"+r.State.Reply)
		},
	}, new(checkpoint.Memory), &orchestrator.Options{
		History:    m.load,
		Compaction: orchestrator.Compaction{After: 12, Run: m.summarize},
	})
}

var _ = newBot
