package tell_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/agui"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

// chatState is the state of chatBot.
type chatState struct{ Said string }

// chatBot returns a bot that says two words, and waits for goOn in between.
func chatBot(t *testing.T, goOn <-chan struct{}) *orchestrator.Orchestrator[chatState] {
	t.Helper()
	greet := func(ctx context.Context, t *orchestrator.Turn[chatState]) error {
		t.Emit("Good ")
		select {
		case <-goOn:
		case <-ctx.Done():
			return ctx.Err()
		}
		t.Emit("day.")
		t.State.Said = "Good day."
		return nil
	}
	bot, err := orchestrator.New(orchestrator.Definition[chatState]{
		Name: "chat", Intents: orchestrator.Intents[chatState]{"say": {Run: greet}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory), Stream: new(stream.Memory)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bot.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return bot
}

func chatReply(res *orchestrator.Result[chatState]) turnhttp.Reply {
	return turnhttp.Reply{Text: res.State.Said}
}

// A page that is loaded again while the turn is at work gets it from its first event on, with the same ids. When the
// turn is over, it gets 204.
func TestShowNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		bot := chatBot(t, goOn)
		turn := bot.Stream(t.Context(), "s", orchestrator.Input{Text: "hello", RequestID: "k"}, nil)
		var pages sync.WaitGroup
		var first, again *httptest.ResponseRecorder
		var errs [2]error
		pages.Go(func() { first, errs[0] = encoded(t, uichat.Write, turnhttp.ShowTurn("s", turn, chatReply)) })
		synctest.Wait()
		pages.Go(func() { again, errs[1] = encoded(t, uichat.Write, turnhttp.ShowNewest(bot, "s", chatReply)) })
		synctest.Wait()
		close(goOn)
		pages.Wait()
		if errs[0] != nil || errs[1] != nil {
			t.Fatal(errs)
		}
		texts := func(w *httptest.ResponseRecorder) (all []string) {
			for _, doc := range documents(t, w.Body.String()) {
				if strings.HasPrefix(sum(t, doc), "text-") {
					all = append(all, sum(t, doc))
				}
			}
			return all
		}
		got, want := texts(again), texts(first)
		if !slices.Equal(got, want) || len(want) != 4 {
			t.Errorf("the page that was loaded again got %q, and the first %q", got, want)
		}

		w, err := encoded(t, uichat.Write, turnhttp.ShowNewest(bot, "s", chatReply))
		if w.Code != http.StatusNoContent || w.Body.Len() > 0 || err != nil {
			t.Errorf("after the turn: %d, %v: %s", w.Code, err, w.Body)
		}
		named := turnhttp.ShowNewest(bot, "s", chatReply)
		named.Run = "run of the client"
		w, err = encoded(t, agui.Write, named)
		if w.Code != http.StatusNoContent || w.Body.Len() > 0 || err != nil {
			t.Errorf("after the turn, to a client that names its run: %d, %v: %s", w.Code, err, w.Body)
		}
	})
}

// An error before the first event is a status.
func TestShowRefused(t *testing.T) {
	goOn := make(chan struct{})
	close(goOn)
	bot := chatBot(t, goOn)
	in := orchestrator.Input{Text: "hello", RequestID: "k"}
	if _, err := bot.Execute(t.Context(), "s", in, nil); err != nil {
		t.Fatal(err)
	}
	for _, e := range []encoder{uichat.Write, agui.Write} {
		again, err := encoded(t, e, turnhttp.ShowTurn("s", bot.Stream(t.Context(), "s", in, nil), chatReply))
		if err != nil || !strings.Contains(again.Body.String(), "Good day.") {
			t.Errorf("the same request again: %v: %s", err, again.Body)
		}
		in := orchestrator.Input{Text: "another", RequestID: "k"}
		w, err := encoded(t, e, turnhttp.ShowTurn("s", bot.Stream(t.Context(), "s", in, nil), chatReply))
		if w.Code != http.StatusUnprocessableEntity || !errors.Is(err, orchestrator.ErrRequestReused) ||
			w.Header().Get("Content-Type") != "application/problem+json" ||
			w.Header().Get("x-vercel-ai-ui-message-stream") != "" {
			t.Errorf("%d, %v, %v: %s", w.Code, err, w.Header(), w.Body)
		}
	}
}

// A client that goes away ends the answer, and not the turn.
func TestShowClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		bot := chatBot(t, goOn)
		turn := bot.Stream(t.Context(), "s", orchestrator.Input{Text: "hello", RequestID: "k"}, nil)
		synctest.Wait()
		ctx, leave := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		ended := make(chan error, 1)
		go func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
			ended <- agui.Write(httptest.NewRecorder(), r, turnhttp.ShowNewest(bot, "s", chatReply))
		}()
		synctest.Wait()
		leave(gone)
		if err := <-ended; !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
		close(goOn)
		if res, err := turn.Result(); err != nil || res.State.Said != "Good day." {
			t.Errorf("the turn ended with %v", err)
		}
	})
}
