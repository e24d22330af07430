package serve_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/serve"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The main function of a service. Here a client asks once, and then the service is told to end. Otherwise it ends by
// SIGTERM.
func Example() {
	type State struct{ Reply string }
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "echo",
		Intents: orchestrator.Intents[State]{"say": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			t.State.Reply = "You said: " + t.Input.Text
			return nil
		}}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /say", func(w http.ResponseWriter, r *http.Request) {
		res, err := bot.Execute(r.Context(), "s-1", orchestrator.Input{Text: r.FormValue("text")}, nil)
		if err != nil {
			http.Error(w, orchestrator.Public(err).Text, orchestrator.Public(err).Status)
			return
		}
		fmt.Fprintln(w, res.State.Reply)
	})

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	err = serve.Run(ctx, serve.Service{
		Handler:  mux,
		Bots:     []serve.Bot{bot},
		Listener: listener, // in place of Addr: ":8080"
		Prepare: func(context.Context) error {
			fmt.Println("the tables are made")
			return nil
		},
		Background: []func(context.Context) error{func(context.Context) error {
			defer end()
			return ask("http://" + listener.Addr().String() + "/say")
		}},
		Close: func() error {
			fmt.Println("the stores are closed")
			return nil
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	fmt.Println("ended:", err)
	// Output:
	// the tables are made
	// You said: hello
	// the stores are closed
	// ended: <nil>
}

// ask is a client of Example.
func ask(where string) error {
	resp, err := http.PostForm(where, url.Values{"text": {"hello"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	fmt.Print(string(reply))
	return err
}
