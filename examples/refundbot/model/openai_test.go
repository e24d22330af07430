package model_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/examples/refundbot/model/chatserver"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

var (
	_ model.Model = (*model.OpenAI)(nil)
	_ model.Model = (*model.Scripted)(nil)
)

// serve starts a chat server, and returns a model that asks it.
func serve(t testing.TB) (*chatserver.Server, *model.OpenAI) {
	t.Helper()
	s := &chatserver.Server{Key: "sk-test"}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	m, err := model.NewOpenAI(model.OpenAIOptions{
		Key: s.Key, BaseURL: web.URL + "/v1", Model: "small", Input: 0.15, Output: 0.60, Client: web.Client(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, m
}

// What the server is asked has all that the model was given: the scripted model answers there as it does here.
func TestOpenAISaysTheSame(t *testing.T) {
	server, asking := serve(t)
	here := new(model.Scripted)
	ctx := oncehttp.Unrecorded(t.Context())
	history := []message.Message{
		message.System("The customer has asked about: refund; orders named: A-1042."),
		message.User("I want my money back"), message.Assistant("Shall I refund order A-1042?"),
	}
	for _, text := range []string{"yes please", "where is B-2001?", "no", "hello", "a \"quoted\"\ntext 🎈"} {
		want, wantUsage, _ := here.Classify(ctx, history, text)
		got, used, err := asking.Classify(ctx, history, text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
		wantSameUsage(t, used, wantUsage)
	}
	for _, p := range []model.Prompt{
		{History: history, Text: "hello"},
		{
			History: history, Text: "yes", Category: model.Refund, Order: "A-1042",
			Facts: []string{"It is paid.", "It is R-1."},
		},
		{
			Text: "where?", Category: model.Shipping, Order: "A-1", Facts: []string{"It is on its way."},
			Recalled: []string{"gold"},
		},
		{Text: "do you promise?", Category: model.Refund, Facts: []string{"Which order?"}},
		{Text: "do you promise?", Category: model.Refund, Facts: []string{"Which order?"}, Feedback: "promise nothing"},
	} {
		var wantPieces, pieces []string
		want, wantUsage, _ := here.Compose(ctx, p, func(s string) { wantPieces = append(wantPieces, s) })
		got, used, err := asking.Compose(ctx, p, func(s string) { pieces = append(pieces, s) })
		if err != nil || got != want || !slices.Equal(pieces, wantPieces) {
			t.Errorf("%q in %q, %v; want %q", got, pieces, err, want)
		}
		wantSameUsage(t, used, wantUsage)
	}
	want, wantUsage, _ := here.Summarize(ctx, history)
	got, used, err := asking.Summarize(t.Context(), history)
	if err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	wantSameUsage(t, used, wantUsage)

	for i, r := range server.Asked() {
		schema := r.Format.Schema
		if classify := i < 5; classify != schema.Strict || classify == r.Options.Usage || r.Model != "small" {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

func wantSameUsage(t testing.TB, got, want model.Usage) {
	t.Helper()
	want.Model = "small"
	if got.Cost -= want.Cost; got.Cost > 1e-12 || got.Cost < -1e-12 {
		t.Errorf("it costs %v more", got.Cost)
	}
	if got.Cost, want.Cost = 0, 0; got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}

// Each way in which a server fails, by the method that meets it.
func TestOpenAIFaults(t *testing.T) {
	const both, classify, compose = "classify compose", "classify", "compose"
	says := func(content string) chatserver.Fault { return chatserver.Fault{Content: content} }
	for name, c := range map[string]struct {
		methods   string
		fault     chatserver.Fault
		want      error
		status    int
		permanent bool
	}{
		"rate limit":     {both, chatserver.Fault{Status: 429, Code: "rate_limit_exceeded"}, nil, 429, false},
		"no quota":       {both, chatserver.Fault{Status: 429, Code: "insufficient_quota"}, nil, 429, true},
		"server error":   {both, chatserver.Fault{Status: 500}, nil, 500, false},
		"unavailable":    {both, chatserver.Fault{Status: 503}, nil, 503, false},
		"bad request":    {both, chatserver.Fault{Status: 400}, nil, 400, true},
		"wrong key":      {both, chatserver.Fault{Status: 401}, nil, 401, true},
		"cut off":        {both, chatserver.Fault{Cut: true}, io.ErrUnexpectedEOF, 0, false},
		"silent end":     {both, chatserver.Fault{Mute: true}, model.ErrReply, 0, false},
		"too long":       {both, chatserver.Fault{Finish: "length"}, model.ErrReply, 0, false},
		"filtered":       {both, chatserver.Fault{Finish: "content_filter"}, model.ErrRefused, 0, true},
		"refusal":        {both, chatserver.Fault{Refuse: true}, model.ErrRefused, 0, true},
		"no JSON":        {classify, chatserver.Fault{NoJSON: true}, model.ErrReply, 0, false},
		"broken chunk":   {compose, chatserver.Fault{NoJSON: true}, nil, 0, false},
		"other members":  {classify, says(`{"answer":"refund"}`), model.ErrReply, 0, false},
		"other category": {classify, says(`{"category":"greeting"}`), model.ErrReply, 0, false},
		"more JSON":      {classify, says(`{"category":"other"}{}`), model.ErrReply, 0, false},
		"yes and no":     {classify, says(`{"category":"other","yes":true,"no":true}`), model.ErrReply, 0, false},
		"no order id":    {classify, says(`{"category":"other","order":"the red one"}`), model.ErrReply, 0, false},
	} {
		for method := range strings.FieldsSeq(c.methods) {
			t.Run(name+" "+method, func(t *testing.T) {
				server, m := serve(t)
				server.Fail(c.fault)
				l := new(ledger.Memory)
				attempts, failed := 0, error(nil)
				res, err := turn(t, m, method, l, func(err error) {
					if attempts++; attempts == 1 {
						failed = err
					}
				})
				e, _ := errors.AsType[*model.StatusError](failed)
				switch {
				case failed == nil, c.want != nil && !errors.Is(failed, c.want),
					c.status != 0 && (e == nil || e.Status != c.status):
					t.Errorf("failed with %v, want %v or status %d", failed, c.want, c.status)
				case retry.IsPermanent(failed) != c.permanent:
					t.Errorf("permanent: %t for %v", !c.permanent, failed)
				case c.permanent && err == nil, !c.permanent && (err != nil || res.State == ""):
					t.Errorf("the turn: %+v, %v", res, err)
				}
				want := map[bool]int{true: 1, false: 2}[c.permanent]
				if n := len(server.Asked()); n != want || n != attempts {
					t.Errorf("asked %d times in %d attempts, want %d", n, attempts, want)
				}
				if n := count(t, l); n != want-1 {
					t.Errorf("%d replies recorded, want %d", n, want-1)
				}
			})
		}
	}
}

// turn runs a turn whose intent calls a method of the model, at most twice. heard gets what each attempt ended with.
func turn(
	t testing.TB, m model.Model, method string, l ledger.Ledger, heard func(error),
) (*orchestrator.Result[string], error) {
	t.Helper()
	run := func(ctx context.Context, t *orchestrator.Turn[string]) (err error) {
		ctx = oncehttp.With(ctx, t, "model")
		if method == "compose" {
			t.State, _, err = m.Compose(ctx, model.Prompt{Text: "hello", Facts: []string{"One fact."}}, t.Emit)
		} else {
			var in model.Intent
			in, _, err = m.Classify(ctx, nil, "refund A-1042")
			t.State = in.Order
		}
		heard(err)
		return err
	}
	bot, err := orchestrator.New(orchestrator.Definition[string]{
		Name:    "bot",
		Intents: orchestrator.Intents[string]{"ask": {Run: run, Retry: retry.Policy{Attempts: 2}}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory), Ledger: l, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return bot.Execute(t.Context(), "s", orchestrator.Input{}, nil)
}

// count returns how many effects a ledger has.
func count(t testing.TB, l ledger.Ledger) (n int) {
	t.Helper()
	for _, err := range l.Effects(t.Context(), ledger.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// A slow server is given up when the context ends, and one that is away is an error that may pass.
func TestOpenAIAway(t *testing.T) {
	server, m := serve(t)
	server.Fail(chatserver.Fault{Wait: time.Minute})
	ctx, cancel := context.WithTimeout(oncehttp.Unrecorded(t.Context()), 50*time.Millisecond)
	defer cancel()
	if _, _, err := m.Compose(ctx, model.Prompt{Text: "hello"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("slow: %v", err)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	away, err := model.NewOpenAI(model.OpenAIOptions{Key: "k", BaseURL: gone.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = away.Classify(oncehttp.Unrecorded(t.Context()), nil, "hello")
	if err == nil || retry.IsPermanent(err) || strings.Contains(err.Error(), "hello") {
		t.Errorf("away: %v", err)
	}
	if _, _, err := m.Classify(t.Context(), nil, "hello"); !errors.Is(err, oncehttp.ErrNoTurn) {
		t.Errorf("without a turn: %v", err)
	}
}

func TestFromEnv(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
		bad  bool
	}{
		{nil, false, false},
		{map[string]string{"OPENAI_BASE_URL": "http://localhost:1"}, false, false},
		{map[string]string{"OPENAI_API_KEY": "k"}, true, false},
		{map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://localhost:1", "OPENAI_MODEL": "m"}, true, false},
		{map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "localhost"}, false, true},
		{map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "ftp://user:secret@host"}, false, true},
	} {
		m, err := model.FromEnv(func(name string) string { return c.env[name] })
		if (m != nil) != c.want || (err != nil) != c.bad || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: %v, %v", c.env, m, err)
		}
	}
	if _, err := model.NewOpenAI(model.OpenAIOptions{}); err == nil {
		t.Error("a model without a key")
	}
}

// What other servers of the protocol answer: an error is told by its status, or is in the stream.
func TestOpenAIOtherServers(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
		permanent  bool
	}{
		{http.StatusBadGateway, "<html>", `status 502, code ""`, false},
		{http.StatusUnauthorized, `{"error":{"message":"no sk-test here","code":401}}`, `status 401, code ""`, true},
		{http.StatusOK, "data: {\"error\":{\"message\":\"overloaded\"}}\n\n", "an error ends it", false},
		{http.StatusOK, ": a comment\n\ndata: [DONE]\n\n", "it is cut off", false},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		m, err := model.NewOpenAI(model.OpenAIOptions{Key: "sk-test", BaseURL: web.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = m.Compose(oncehttp.Unrecorded(t.Context()), model.Prompt{Text: "hello"}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || retry.IsPermanent(err) != c.permanent {
			t.Errorf("%d %q: %v, want %s", c.status, c.body, err, c.want)
		}
		web.Close()
	}
}
