// Chat serves a page with useChat. A script is its model.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/serve"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

type order struct{ Number string }

func main() {
	ctx, db := context.Background(), must(sqlite.Open("chat.db"))
	stores := sqlite.New(db, nil)
	must(0, stores.Up(ctx))
	model := scripted.New(
		scripted.On(`(?i)refund (\w+)`,
			scripted.Call("refund", `{"Number": "{1}"}`), scripted.Say("It is {result}.")),
		scripted.On("", scripted.Say("I can refund A1042, if you agree. I say it slowly, so that you can stop me, edit "+
			"what you said, load the page again, or kill the server and start it again.")))
	model.Delay = 150 * time.Millisecond
	refund := agent.Effect[order, string]{
		Name:    "refund",
		Run:     func(context.Context, string, order) (string, error) { return "refunded", nil },
		Approve: func(order) bool { return true },
	}
	a := must(agent.New(agent.Definition[struct{}]{
		Name: "chat", Model: model, Tools: []agent.Tool{refund.Tool()},
	}, agent.On(stores), nil))
	may := turnhttp.Allow("you", turnhttp.ActionTurn, turnhttp.ActionFollow, turnhttp.ActionStop, turnhttp.ActionAnswer)
	chat := uichat.Handler(a.Bot(), a.Options(turnhttp.Options[agent.State[struct{}]]{Authorize: may}), nil)
	http.Handle("/api/chat", chat)
	http.Handle("/api/chat/", chat)
	http.Handle("/", http.FileServer(http.Dir("public")))
	at := append(os.Args, "localhost:8080")[1]
	log.Printf("http://%s talks", at)
	must(0, serve.Run(ctx, serve.Service{Addr: at, Handler: http.DefaultServeMux, Bots: []serve.Bot{a.Bot()}}))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
