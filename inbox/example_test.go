package inbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/inbox"
)

// Two people answer one question. The first one decides. Later the turn that takes the answers looks whether they are
// about what it asks by then.
func ExampleStore() {
	ctx := context.Background()
	var store inbox.Store = new(inbox.Memory) // or pginbox, sqliteinbox, redisinbox
	key := inbox.Key{Orchestrator: "refunds", Session: "order 17"}
	asked, err := inbox.Sum("Refund 10 EUR?")
	if err != nil {
		log.Fatal(err)
	}

	for _, person := range []string{"ada", "bob", "ada"} { // ada's reply was lost, so she asks again
		first, err := store.Post(ctx, inbox.Item{
			Key: key, Kind: inbox.Answer, ID: "question 1", By: person, Shown: asked,
			Data: json.RawMessage(`{"refund": true}`),
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(person, "decides:", first)
	}

	for it, err := range store.Items(ctx, key, inbox.Answer) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(it.By, "answers", it.ID, "about what is asked:", it.Shown == asked)
		if err := store.Remove(ctx, key, inbox.Answer, it.ID); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// ada decides: true
	// bob decides: false
	// ada decides: true
	// ada answers question 1 about what is asked: true
}
