package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A bank stands for a client of a payment service. It loses its first reply.
type bank struct{ receipts map[string]string }

func (b *bank) refund(_ context.Context, key, order string) (string, error) {
	fmt.Println("the bank pays for", order)
	b.receipts[key] = "receipt for " + order
	if len(b.receipts) == 1 {
		return "", errors.New("gateway timeout")
	}
	return b.receipts[key], nil
}

func (b *bank) find(_ context.Context, key string) (receipt string, landed bool, err error) {
	receipt, landed = b.receipts[key]
	return receipt, landed, nil
}

// A refund is paid once for an order, also if the turn that pays it fails. Here the reply of the bank is lost.
// The turn does not fail, because the customer would ask again. It waits, and the next attempt asks the bank.
func ExampleOnce() {
	type State struct{ Order, Receipt string }
	type Turn = orchestrator.Turn[State]
	b := &bank{receipts: make(map[string]string)}
	refund := func(ctx context.Context, t *Turn) (err error) {
		pay := func(ctx context.Context, key string) (string, error) { return b.refund(ctx, key, t.Input.Text) }
		t.State.Receipt, err = orchestrator.Once(ctx, t, "refund", pay,
			&orchestrator.OnceOptions[string]{Class: ledger.Verifiable, Key: t.Input.Text, Verify: b.find})
		return err
	}
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "refunds", Intents: orchestrator.Intents[State]{"refund": {Run: refund}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory), Ledger: new(ledger.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	_, err = bot.Execute(ctx, "session-1", orchestrator.Input{Text: "order 7"}, nil)
	fmt.Println("in doubt:", errors.Is(err, ledger.ErrInDoubt),
		"settles later:", errors.Is(err, orchestrator.ErrIndeterminate))
	res, err := bot.Resume(ctx, "session-1", nil) // the drain does it too
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Receipt)
	res, err = bot.Execute(ctx, "session-2", orchestrator.Input{Text: "order 7"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Receipt)
	// Output:
	// the bank pays for order 7
	// in doubt: true settles later: true
	// receipt for order 7
	// receipt for order 7
}

// An intent that decides on a refund announces it. The save of the decision then carries the intent to pay, too: when
// the next intent begins, the ledger has the effect, and Once acts at once.
func ExampleAhead() {
	type State struct{ Receipt string }
	type Turn = orchestrator.Turn[State]
	effects := new(ledger.Memory)
	options := func(t *Turn) *orchestrator.OnceOptions[string] {
		return &orchestrator.OnceOptions[string]{Class: ledger.Idempotent, Args: t.Input.Text}
	}
	decide := func(_ context.Context, t *Turn) error { return orchestrator.Ahead(t, "refund", "pay", options(t)) }
	refund := func(ctx context.Context, t *Turn) (err error) {
		for e, err := range effects.Effects(ctx, ledger.Query{RunID: t.RunID}) {
			fmt.Println(e.Name, e.State, err)
		}
		pay := func(context.Context, string) (string, error) { return "receipt for " + t.Input.Text, nil }
		t.State.Receipt, err = orchestrator.Once(ctx, t, "pay", pay, options(t))
		return err
	}
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "refunds", Iterate: true, First: "decide",
		Intents: orchestrator.Intents[State]{
			"decide": {Run: decide, Next: orchestrator.To("refund")},
			"refund": {Run: refund, Next: orchestrator.End},
		},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory), Ledger: effects})
	if err != nil {
		log.Fatal(err)
	}
	res, err := bot.Execute(context.Background(), "session-1", orchestrator.Input{Text: "order 7"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Receipt)
	// Output:
	// pay issued <nil>
	// receipt for order 7
}

// Without a way to ask the other side, a person answers. The run waits for the answer, and then goes on.
func ExampleInDoubtError() {
	type State struct{ Receipt string }
	type Turn = orchestrator.Turn[State]
	b := &bank{receipts: make(map[string]string)}
	refund := func(ctx context.Context, t *Turn) (err error) {
		pay := func(ctx context.Context, key string) (string, error) { return b.refund(ctx, key, t.Input.Text) }
		t.State.Receipt, err = orchestrator.Once(ctx, t, "refund", pay,
			&orchestrator.OnceOptions[string]{Key: t.Input.Text}) // the class is ledger.Ask
		return err
	}
	effects := new(ledger.Memory)
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "refunds", Intents: orchestrator.Intents[State]{"refund": {Run: refund}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory), Ledger: effects})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	_, err = bot.Execute(ctx, "session-1", orchestrator.Input{Text: "order 7"}, nil)
	fmt.Println("waits for an answer:", errors.Is(err, orchestrator.ErrSuspended))

	// What a desk does: it lists what is open, asks the bank by telephone, and answers.
	for e, err := range effects.Effects(ctx, ledger.Query{Orchestrator: bot.Name(), Open: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Session, e.Name, e.Key, e.State, e.Error)
		answer := ledger.Answer{Landed: true, Result: []byte(`"receipt 12"`), By: "Ann"}
		if err := ledger.Resolve(ctx, effects, e.ID, answer); err != nil {
			log.Fatal(err)
		}
		res, err := bot.Resume(ctx, e.Session, nil) // the drain does it too
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.State.Receipt)
	}
	// Output:
	// the bank pays for order 7
	// waits for an answer: true
	// session-1 refund order 7 unknown gateway timeout
	// receipt 12
}
