// Package uichat serves pages with useChat of Vercel's AI SDK. [Handler] has the routes that its DefaultChatTransport
// uses, for version 7, and a page needs nothing beside it. [Write] writes one turn, for routes of a program's own.
package uichat

import (
	"net/http"

	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/tell"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// header marks a UI message stream.
const header = "X-Vercel-Ai-Ui-Message-Stream"

// Write answers with the UI message stream of the AI SDK, for useChat of versions 5, 6 and 7:
//
//	mux.HandleFunc("POST /chat/{id}", func(w http.ResponseWriter, r *http.Request) {
//		turn := bot.Stream(context.WithoutCancel(r.Context()), r.PathValue("id"), input(r), nil)
//		_ = uichat.Write(w, r, turnhttp.ShowTurn(r.PathValue("id"), turn, reply))
//	})
//
// One message is one turn, and its id the id of the run. A step is an iteration in which something is said or called,
// and a text part what one function of the bot says. The intents of turnhttp.Show.Tools are dynamic tools, and so are
// calls that the bot shows as a turnhttp.Part. These parts are of our own:
//
//	data-intent     an intent begins; transient
//	data-void       the texts with the id of this part are void
//	data-reply      turnhttp.Reply.Data
//	data-question   a question, with id, shown, sum and expires
//	data-suspended  a person has to answer for effects: a problem document
//	data-problem    the problem document of the error that follows; transient
//
// The protocol cannot take a text back. If a later attempt says it anew, providerMetadata.holdfast.void of the text
// part is true, and a page has to hide that part. If the part has ended before, a part data-void comes, whose data.id
// is providerMetadata.holdfast.id of the text part.
//
// An error before the first event is answered as turnhttp.Problem does. Write returns the error that the client was
// told of, or why the client has gone. The caller logs it.
func Write(w http.ResponseWriter, r *http.Request, s turnhttp.Show) error {
	w.Header().Set(header, "v1")
	return tell.Run(w, r, s, header, func(out *front.Sender) tell.Protocol { return &protocol{out: out} })
}
