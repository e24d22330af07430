package ops_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/ops"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// An agent waits for a person. Somebody who has the stores and not the agent sees the question and answers it. The
// first answer counts. A process that has the agent runs it: see Answers of package agent.
func ExampleRoom_AnswerQuestion() {
	type payment struct{ Cents int }
	ctx := context.Background()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	stores := agent.InMemory()
	shop, err := agent.New(agent.Definition[struct{}]{
		Name:  "shop",
		Model: scripted.New(scripted.On("refund", scripted.Call("refund", `{"Cents":42000}`))),
		Tools: []agent.Tool{agent.Effect[payment, string]{
			Name: "refund", Approve: func(payment) bool { return true },
			Run: func(context.Context, string, payment) (string, error) { return "paid", nil },
		}.Tool()},
	}, stores, &orchestrator.Options{Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := shop.Say(ctx, "session-1", agent.Text("refund me"), nil); err != nil {
		log.Fatal(err)
	}

	room := ops.New(ops.Stores{
		Checkpoints: stores.Checkpoints, Snapshots: stores.Snapshots, Inbox: stores.Inbox,
		Bots: stores.Checkpoints.(*checkpoint.Memory).Bots,
	}, &ops.Options{Waiting: agent.LabelWaiting, Desk: agent.Desk, Logger: quiet})
	for q, err := range room.Questions(ctx, "", "") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(q.Orchestrator, q.Session, string(q.JSON))
		yes := approval.Answer{Data: []byte(`{"approved": true}`), Sum: q.Sum}
		no := approval.Answer{Data: []byte(`{"approved": false}`), Sum: q.Sum}
		fmt.Println(room.AnswerQuestion(ctx, "ann", q.Key, q.ID, yes))
		err = room.AnswerQuestion(ctx, "bob", q.Key, q.ID, no)
		fmt.Println(errors.Is(err, approval.ErrAnswered))
	}
	// Output:
	// shop session-1 {"agent":"shop","kind":"approval","tool":"refund","args":{"Cents":42000}}
	// <nil>
	// true
}
