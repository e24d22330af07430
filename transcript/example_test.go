package transcript_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// A process appends a reply, and dies before it saves the state that names it. The next one repeats the step: it finds
// the entry. Then a late owner appends something else. No state names it, so it was never said.
func ExampleStore() {
	ctx := context.Background()
	var store transcript.Store = new(transcript.Memory) // or Transcripts of a database
	key := transcript.Key{Orchestrator: "shop", Session: "customer 7"}
	var said []transcript.Span // of the state

	asked, err := store.Append(ctx, key, "run 1, question", []message.Message{message.User("Where is A-1042?")})
	if err != nil {
		log.Fatal(err)
	}
	said = transcript.Join(said, asked)
	for range 2 {
		reply := []message.Message{message.Assistant("On its way.")}
		if asked, err = store.Append(ctx, key, "run 1, reply", reply); err != nil {
			log.Fatal(err)
		}
		fmt.Println("the reply is message", asked.From)
	}
	said = transcript.Join(said, asked)

	if _, err := store.Append(ctx, key, "run 0, reply", []message.Message{message.Assistant("Lost.")}); err != nil {
		log.Fatal(err)
	}
	for msg, err := range store.Read(ctx, key, said) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(msg.Role+":", msg.Blocks[0].Text)
	}
	// Output:
	// the reply is message 2
	// the reply is message 2
	// user: Where is A-1042?
	// assistant: On its way.
}
