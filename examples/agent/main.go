// Agent is a shop's agent with a page: kill it in the middle of a payment, and start it again. A script is its model.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/serve"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/chatpage"
)

type order struct{ Number string }

type options = turnhttp.Options[agent.State[struct{}]]

func main() {
	db, ctx := must(sqlite.Open("agent.db")), context.Background()
	stores := sqlite.New(db, nil)
	must(0, stores.Up(ctx))
	must(db.Exec("CREATE TABLE IF NOT EXISTS payments (key TEXT PRIMARY KEY, number TEXT)")) // of the bank
	refund := func(ctx context.Context, key string, o order) (string, error) {
		_, err := db.ExecContext(ctx, "INSERT OR IGNORE INTO payments VALUES (?, ?)", key, o.Number)
		log.Print("the bank has paid, and takes 5 s to say so. Now: kill -9 ", os.Getpid())
		time.Sleep(5 * time.Second)
		return "refunded " + o.Number, err
	}
	cancel := func(context.Context, string, order) (string, error) { return "cancelled", nil }
	model := scripted.New(scripted.On(`(?i)refund (\w+)`, scripted.Call("look_up", `{"Number": "{1}"}`),
		scripted.Call("refund", `{"Number": "{1}"}`), scripted.Say("The bank says: {result}.")),
		scripted.On(`(?i)cancel (\w+)`, scripted.Call("cancel", `{"Number": "{1}"}`), scripted.Say("It is {result}.")),
		scripted.On("(?i)when", scripted.Call("time_zone", "{}"), scripted.Say("At 9 in the morning in {result}.")),
		scripted.On("", scripted.Say("I can refund A1042. I know when it comes. I can cancel it, if a person agrees.")))
	a := must(agent.New(agent.Definition[struct{}]{Name: "shop", Model: model, Tools: []agent.Tool{
		agent.Read("look_up", "", func(context.Context, order) (string, error) { return "paid, and lost", nil }),
		agent.Effect[order, string]{Name: "refund", Class: ledger.Idempotent, Run: refund}.Tool(),
		agent.ClientTool[struct{}]("time_zone", "of the user"), // their browser knows: see people.go
		agent.Effect[order, string]{Name: "cancel", Run: cancel, Approve: func(order) bool { return true }}.Tool(),
	}}, agent.On(stores), nil))
	http.Handle("/sessions/", agent.Handler(a, options{Authorize: talks}))
	http.Handle("GET /{$}", chatpage.Handler(&chatpage.Options{Title: "Shop", ClientTools: clientTools}))
	http.Handle("/desk/sessions/", http.StripPrefix("/desk", agent.Handler(a, options{Authorize: answers})))
	http.Handle("GET /desk/{$}", chatpage.Handler(&chatpage.Options{Title: "Desk", API: "/desk"}))
	at, bots := append(os.Args, "localhost:8080")[1], []serve.Bot{a.Bot()}
	log.Printf("http://%[1]s/#1 talks, and http://%[1]s/desk/#1 answers", at)
	must(0, serve.Run(ctx, serve.Service{Addr: at, Handler: http.DefaultServeMux, Bots: bots}))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
