package tell_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/agui"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A scene is a turn as a front end gets it.
type scene struct {
	name   string
	events []orchestrator.Event
	kept   bool // the events come from a stream store
	tools  []string
	reply  turnhttp.Reply
	err    error
	ui     []string // what UIMessages sends, as sum says
	agui   []string // what AGUI sends
}

// Short names for events.
func ev(kind orchestrator.EventKind, with ...func(*orchestrator.Event)) orchestrator.Event {
	e := orchestrator.Event{Kind: kind, Session: "s", RunID: "r"}
	for _, f := range with {
		f(&e)
	}
	return e
}

func in(intent string, attempt int) func(*orchestrator.Event) {
	return func(e *orchestrator.Event) { e.Intent, e.Attempt = intent, attempt }
}

func item(n int) func(*orchestrator.Event) { return func(e *orchestrator.Event) { e.Item = n } }

func at(iteration int) func(*orchestrator.Event) {
	return func(e *orchestrator.Event) { e.Iteration = iteration }
}

func say(delta string) func(*orchestrator.Event) {
	return func(e *orchestrator.Event) { e.Delta = delta }
}

func shows(p turnhttp.Part) func(*orchestrator.Event) {
	return func(e *orchestrator.Event) { e.Data, _ = json.Marshal(p) }
}

func failed(e *orchestrator.Event) { e.Err = errors.New("the model is away") }

const (
	started  = orchestrator.TurnStarted
	resumed  = orchestrator.TurnResumed
	routed   = orchestrator.Routed
	begins   = orchestrator.IntentStarted
	token    = orchestrator.Token
	ends     = orchestrator.IntentEnded
	settled  = orchestrator.TurnSettled
	turnLeft = orchestrator.TurnLeft
	part     = orchestrator.Part
)

var scenes = []scene{
	{
		name: "tokens",
		events: []orchestrator.Event{
			ev(started), ev(routed), ev(begins, in("say", 1)), ev(token, in("say", 1), say("Good ")),
			ev(token, in("say", 1), say("day.")), ev(ends, in("say", 1)), ev(settled),
		},
		reply: turnhttp.Reply{Text: "Good day.", Usage: orchestrator.Usage{Model: "m", Input: 3, Output: 2}},
		ui: []string{
			"start r", "start-step", "data-intent", "text-start r-2", "text-delta r-2 Good ", "text-delta r-2 day.",
			"text-end r-2", "finish-step", "finish stop", "[DONE]",
		},
		agui: []string{
			"RUN_STARTED r", "STEP_STARTED say", "TEXT_MESSAGE_START r-2", "TEXT_MESSAGE_CONTENT r-2 Good ",
			"TEXT_MESSAGE_CONTENT r-2 day.", "STEP_FINISHED say", "TEXT_MESSAGE_END r-2", "RUN_FINISHED r success",
		},
	},
	{
		name:   "no tokens",
		events: []orchestrator.Event{ev(started), ev(settled)},
		reply:  turnhttp.Reply{Text: "Good day.", Data: map[string]int{"n": 1}},
		ui: []string{
			"start r", "start-step", "text-start r-1", "text-delta r-1 Good day.", "text-end r-1", "data-reply", "finish-step",
			"finish stop", "[DONE]",
		},
		agui: []string{
			"RUN_STARTED r", "TEXT_MESSAGE_START r-1", "TEXT_MESSAGE_CONTENT r-1 Good day.", "TEXT_MESSAGE_END r-1",
			"RUN_FINISHED r success",
		},
	},
	{
		name: "an attempt fails",
		events: []orchestrator.Event{
			ev(started), ev(begins, in("say", 1)), ev(token, in("say", 1), say("Goo")), ev(ends, in("say", 1), failed),
			ev(begins, in("say", 2)), ev(token, in("say", 2), say("Good day.")), ev(ends, in("say", 2)), ev(settled),
		},
		reply: turnhttp.Reply{Text: "Good day."},
		ui: []string{
			"start r", "start-step", "data-intent", "text-start r-2", "text-delta r-2 Goo", "text-end r-2 void", "data-intent",
			"text-start r-4", "text-delta r-4 Good day.", "text-end r-4", "finish-step", "finish stop", "[DONE]",
		},
		agui: []string{
			"RUN_STARTED r", "STEP_STARTED say", "TEXT_MESSAGE_START r-2", "TEXT_MESSAGE_CONTENT r-2 Goo", "STEP_FINISHED say",
			"TEXT_MESSAGE_END r-2 void", "CUSTOM holdfast.void r-2", "STEP_STARTED say", "TEXT_MESSAGE_START r-4",
			"TEXT_MESSAGE_CONTENT r-4 Good day.", "STEP_FINISHED say", "TEXT_MESSAGE_END r-4", "RUN_FINISHED r success",
		},
	},
	{
		name: "an attempt fails, kept", kept: true,
		events: []orchestrator.Event{
			ev(started), ev(begins, in("say", 1)), ev(token, in("say", 1), say("Goo")), ev(ends, in("say", 1), failed),
			ev(begins, in("say", 2)), ev(token, in("say", 2), say("Good day.")), ev(ends, in("say", 2)), ev(settled),
		},
		reply: turnhttp.Reply{Text: "Good day."},
		ui: []string{
			"start r", "start-step", "data-intent", "text-start r-2", "text-delta r-2 Goo", "text-end r-2 void", "data-intent",
			"text-start r-4", "text-delta r-4 Good day.", "text-end r-4", "finish-step", "finish stop", "[DONE]",
		},
	},
	{
		name: "taken over", kept: true,
		events: []orchestrator.Event{
			ev(started), ev(begins, in("think", 1)), ev(token, in("think", 1), say("Hm.")), ev(ends, in("think", 1)),
			ev(begins, in("say", 1), at(1)), ev(token, in("say", 1), at(1), say("Go")),
			ev(resumed, at(1)),
			ev(begins, in("say", 1), at(1)), ev(token, in("say", 1), at(1), say("Good day.")), ev(settled, at(1)),
		},
		ui: []string{
			"start r", "start-step", "data-intent", "text-start r-2", "text-delta r-2 Hm.", "text-end r-2", "data-intent",
			"finish-step", "start-step", "text-start r-4", "text-delta r-4 Go", "text-end r-4 void", "data-intent",
			"text-start r-6", "text-delta r-6 Good day.", "text-end r-6", "finish-step", "finish stop", "[DONE]",
		},
	},
	{
		// What had ended in an iteration that begins again is void.
		name: "taken over in the same iteration", kept: true,
		events: []orchestrator.Event{
			ev(started), ev(token, in("think", 1), say("Hm.")), ev(ends, in("think", 1)), ev(resumed),
			ev(begins, in("think", 1)), ev(token, in("think", 1), say("Hm!")), ev(ends, in("think", 1)), ev(settled),
		},
		ui: []string{
			"start r", "start-step", "text-start r-1", "text-delta r-1 Hm.", "text-end r-1", "data-void r-1", "data-intent",
			"text-start r-3", "text-delta r-3 Hm!", "text-end r-3", "finish-step", "finish stop", "[DONE]",
		},
	},
	{
		name: "an attempt fails, and its end is dropped", kept: true,
		events: []orchestrator.Event{
			ev(started), ev(token, in("say", 1), say("Goo")), ev(token, in("say", 2), say("Good day.")), ev(settled),
		},
		ui: []string{
			"start r", "start-step", "text-start r-1", "text-delta r-1 Goo", "text-end r-1 void", "text-start r-2",
			"text-delta r-2 Good day.", "text-end r-2", "finish-step", "finish stop", "[DONE]",
		},
	},
	{
		// The iteration that was saved last lies further back.
		name: "taken over further back",
		events: []orchestrator.Event{
			ev(started), ev(token, in("think", 1), say("Hm.")), ev(token, in("say", 1), at(1), say("Go")),
			ev(resumed),
			ev(token, in("think", 1), say("Hm!")), ev(token, in("say", 1), at(1), say("Good day.")), ev(settled, at(1)),
		},
		ui: []string{
			"start r", "start-step", "text-start r-1", "text-delta r-1 Hm.", "text-end r-1", "finish-step", "start-step",
			"text-start r-2", "text-delta r-2 Go", "text-end r-2 void", "data-void r-1", "finish-step", "start-step",
			"text-start r-3", "text-delta r-3 Hm!", "text-end r-3", "finish-step", "start-step", "text-start r-4",
			"text-delta r-4 Good day.", "text-end r-4", "finish-step", "finish stop", "[DONE]",
		},
		agui: []string{
			"RUN_STARTED r", "TEXT_MESSAGE_START r-1", "TEXT_MESSAGE_CONTENT r-1 Hm.", "TEXT_MESSAGE_END r-1",
			"TEXT_MESSAGE_START r-2", "TEXT_MESSAGE_CONTENT r-2 Go", "TEXT_MESSAGE_END r-2 void", "CUSTOM holdfast.void r-2",
			"TEXT_MESSAGE_START r-1", "TEXT_MESSAGE_END r-1 void", "CUSTOM holdfast.void r-1",
			"TEXT_MESSAGE_START r-3", "TEXT_MESSAGE_CONTENT r-3 Hm!", "TEXT_MESSAGE_END r-3",
			"TEXT_MESSAGE_START r-4", "TEXT_MESSAGE_CONTENT r-4 Good day.", "TEXT_MESSAGE_END r-4", "RUN_FINISHED r success",
		},
	},
	{
		name: "tools", tools: []string{"look"},
		events: []orchestrator.Event{
			ev(started), ev(begins, in("look", 1)), ev(ends, in("look", 1), failed), ev(begins, in("look", 2)),
			ev(ends, in("look", 2)), ev(begins, in("check", 1), item(1)), ev(begins, in("check", 1), item(2)),
			ev(ends, in("check", 1), item(2)), ev(settled),
		},
		ui: []string{
			"start r", "start-step", "tool-input-start r-1 look", "tool-input-available r-1 look", "tool-output-error r-1 It failed.",
			"tool-input-start r-2 look", "tool-input-available r-2 look", "tool-output-available r-2", "data-intent",
			"data-intent", "finish-step", "finish stop", "[DONE]",
		},
		agui: []string{
			"RUN_STARTED r", "TOOL_CALL_START r-1 look", "TOOL_CALL_ARGS r-1 {}", "TOOL_CALL_END r-1", "TOOL_CALL_RESULT r-1-result r-1",
			"TOOL_CALL_START r-2 look", "TOOL_CALL_ARGS r-2 {}", "TOOL_CALL_END r-2", "TOOL_CALL_RESULT r-2-result r-2",
			"STEP_STARTED check 1", "STEP_STARTED check 2", "STEP_FINISHED check 2", "STEP_FINISHED check 1",
			"RUN_FINISHED r success",
		},
	},
	{
		name: "calls that a bot shows",
		events: []orchestrator.Event{
			ev(started), ev(begins, in("model", 1)),
			ev(part, in("model", 1), shows(turnhttp.Part{Type: "reasoning", Text: "Hm."})),
			ev(part, in("model", 1), shows(turnhttp.Part{Type: "tool_call", ID: "c1", Name: "look", Args: []byte(`{"n":1}`)})),
			ev(part, in("model", 1), shows(turnhttp.Part{Type: "tool_call", ID: "c2", Name: "pay"})),
			ev(part, in("model", 1), shows(turnhttp.Part{Type: "tool_call", ID: "c3", Name: "slow"})),
			ev(part, in("model", 1), shows(turnhttp.Part{Type: "odd"})), ev(ends, in("model", 1)),
			ev(part, in("tools", 1), at(1), shows(turnhttp.Part{Type: "tool_result", ID: "c1", Text: `{"found":2}`})),
			ev(part, in("tools", 1), at(1),
				shows(turnhttp.Part{Type: "tool_result", ID: "c2", Text: "no money", Failed: true})),
			ev(settled, at(1)),
		},
		ui: []string{
			"start r", "start-step", "data-intent", "reasoning-start r-2", "reasoning-delta r-2 Hm.", "reasoning-end r-2",
			`tool-input-available c1 look {"n":1}`, "tool-input-available c2 pay", "tool-input-available c3 slow",
			`tool-output-available c1 {"found":2}`, "tool-output-error c2 no money",
			"tool-output-error c3 It did not end.", "finish-step", "finish stop", "[DONE]",
		},
		agui: []string{
			"RUN_STARTED r", "STEP_STARTED model", "REASONING_START r-2", "REASONING_MESSAGE_START r-2",
			"REASONING_MESSAGE_CONTENT r-2 Hm.", "REASONING_MESSAGE_END r-2", "REASONING_END r-2",
			"TOOL_CALL_START c1 look", `TOOL_CALL_ARGS c1 {"n":1}`, "TOOL_CALL_END c1",
			"TOOL_CALL_START c2 pay", "TOOL_CALL_ARGS c2 {}", "TOOL_CALL_END c2",
			"TOOL_CALL_START c3 slow", "TOOL_CALL_ARGS c3 {}", "TOOL_CALL_END c3", "STEP_FINISHED model",
			`TOOL_CALL_RESULT c1-result c1 {"found":2}`, "TOOL_CALL_RESULT c2-result c2 no money",
			"TOOL_CALL_RESULT c3-result c3 It did not end.", "RUN_FINISHED r success",
		},
	},
	{
		name: "a call whose attempt fails",
		events: []orchestrator.Event{
			ev(started), ev(part, in("model", 1), shows(turnhttp.Part{Type: "tool_call", ID: "c1", Name: "look"})),
			ev(part, in("model", 1), shows(turnhttp.Part{Type: "tool_result", ID: "c1", Text: "found"})), ev(resumed),
			ev(begins, in("model", 1)),
			ev(part, in("model", 1), shows(turnhttp.Part{Type: "tool_call", ID: "c2", Name: "look"})),
			ev(part, in("model", 1), shows(turnhttp.Part{Type: "tool_result", ID: "c2", Text: "found"})), ev(settled),
		},
		ui: []string{
			"start r", "start-step", "tool-input-available c1 look", `tool-output-available c1 "found"`,
			"tool-output-error c1 It begins anew.", "data-intent", "tool-input-available c2 look", `tool-output-available c2 "found"`,
			"finish-step", "finish stop", "[DONE]",
		},
	},
	{
		name:   "a question",
		events: []orchestrator.Event{ev(started), ev(token, in("ask", 1), say("May I?")), ev(settled)},
		reply: turnhttp.Reply{Text: "May I?", Questions: []approval.Question{{
			ID: "q-1", Shown: map[string]any{"cents": 25000}, Expires: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		}}},
		ui: []string{
			"start r", "start-step", "text-start r-1", "text-delta r-1 May I?", "text-end r-1", "data-question q-1",
			"finish-step", "finish stop", "[DONE]",
		},
		agui: []string{
			"RUN_STARTED r", "TEXT_MESSAGE_START r-1", "TEXT_MESSAGE_CONTENT r-1 May I?", "TEXT_MESSAGE_END r-1",
			"RUN_FINISHED r interrupt q-1",
		},
	},
	{
		name: "an effect in doubt", tools: []string{"pay"},
		events: []orchestrator.Event{ev(started), ev(begins, in("pay", 1)), ev(orchestrator.TurnSuspended)},
		err: &orchestrator.Error{Op: "intent", RunID: "r", Err: fmt.Errorf("%w: %w", orchestrator.ErrSuspended,
			&orchestrator.InDoubtError{RunID: "r", Effects: []string{"e-1", "e-2"}, Ask: true})},
		ui: []string{
			"start r", "start-step", "tool-input-start r-1 pay", "tool-input-available r-1 pay", "tool-output-error r-1 It is not known yet whether it happened.",
			"data-suspended", "finish-step", "finish other", "[DONE]",
		},
		agui: []string{
			"RUN_STARTED r", "TOOL_CALL_START r-1 pay", "TOOL_CALL_ARGS r-1 {}", "TOOL_CALL_END r-1",
			"TOOL_CALL_RESULT r-1-result r-1", "RUN_FINISHED r interrupt e-1 e-2",
		},
	},
	{
		name:   "it fails",
		events: []orchestrator.Event{ev(started), ev(token, in("say", 1), say("Go")), ev(orchestrator.TurnFailed)},
		err:    &orchestrator.Error{Op: "intent", RunID: "r", Err: errors.New("card 4711")},
		ui: []string{
			"start r", "start-step", "text-start r-1", "text-delta r-1 Go", "text-end r-1 void", "data-problem", "finish-step",
			"error The bot could not answer.", "[DONE]",
		},
		agui: []string{
			"RUN_STARTED r", "TEXT_MESSAGE_START r-1", "TEXT_MESSAGE_CONTENT r-1 Go", "TEXT_MESSAGE_END r-1 void",
			"CUSTOM holdfast.void r-1", "RUN_ERROR /problems/bot-failed",
		},
	},
	{
		name:   "it is abandoned",
		events: []orchestrator.Event{ev(started), ev(begins, in("say", 1)), ev(turnLeft)},
		err:    &orchestrator.Error{Op: "intent", RunID: "r", Err: orchestrator.ErrAbandoned},
		ui:     []string{"start r", "start-step", "data-intent", "finish-step", "abort", "[DONE]"},
		agui:   []string{"RUN_STARTED r", "STEP_STARTED say", "STEP_FINISHED say", "RUN_ERROR /problems/stopped"},
	},
	{
		name: "words are missing",
		events: []orchestrator.Event{
			ev(started), ev(token, in("say", 1), say("Good ")),
			ev(token, in("say", 1), say("."), func(e *orchestrator.Event) { e.Dropped = 1 }), ev(settled),
		},
		reply: turnhttp.Reply{Text: "Good day."},
		ui: []string{
			"start r", "start-step", "text-start r-1", "text-delta r-1 Good ", "text-delta r-1 .", "text-end r-1",
			"data-void r-1", "text-start r-2", "text-delta r-2 Good day.", "text-end r-2", "finish-step", "finish stop", "[DONE]",
		},
	},
}

func (s scene) show() turnhttp.Show {
	return turnhttp.Show{
		Session: "s", Tools: s.tools,
		Events: func(context.Context) iter.Seq2[orchestrator.Shown, error] {
			return func(yield func(orchestrator.Shown, error) bool) {
				for i, e := range s.events {
					shown := orchestrator.Shown{Event: e}
					if s.kept {
						shown = kept(i+1, e)
					}
					if !yield(shown, nil) {
						return
					}
				}
			}
		},
		Outcome: func(context.Context, orchestrator.Event) (turnhttp.Reply, error) { return s.reply, s.err },
	}
}

// kept returns an event as a stream store keeps it.
func kept(number int, e orchestrator.Event) orchestrator.Shown {
	shown := orchestrator.Shown{Number: int64(number)}
	doc, err := json.Marshal(e)
	if err == nil {
		err = json.Unmarshal(doc, &shown.Event)
	}
	if err != nil {
		panic(err)
	}
	return shown
}

type encoder = func(http.ResponseWriter, *http.Request, turnhttp.Show) error

// encoded returns the response of an encoder.
func encoded(t *testing.T, e encoder, s turnhttp.Show) (*httptest.ResponseRecorder, error) {
	t.Helper()
	w := httptest.NewRecorder()
	err := e(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody), s)
	return w, err
}

// documents returns the data of server-sent events.
func documents(t *testing.T, body string) (docs []string) {
	t.Helper()
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		line := lines.Text()
		switch {
		case line == "", line == "retry: 1000", strings.HasPrefix(line, ":"):
		case strings.HasPrefix(line, "data: "):
			docs = append(docs, strings.TrimPrefix(line, "data: "))
		default:
			t.Errorf("the line %q is no data", line)
		}
	}
	return docs
}

// sum shortens a document to what the scenes name.
func sum(t *testing.T, doc string) string {
	t.Helper()
	if doc == "[DONE]" {
		return doc
	}
	var d map[string]any
	if err := json.Unmarshal([]byte(doc), &d); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	words := []string{d["type"].(string)}
	for _, key := range []string{
		"id", "messageId", "runId", "stepName", "name", "toolCallId", "toolName", "toolCallName", "delta", "finishReason",
		"code",
	} {
		if v, ok := d[key].(string); ok {
			words = append(words, v)
		}
	}
	if text, ok := d["errorText"].(string); ok {
		words = append(words, text)
	}
	for _, key := range []string{"input", "output"} {
		if doc, err := json.Marshal(d[key]); err == nil && d[key] != nil && string(doc) != "{}" {
			words = append(words, string(doc))
		}
	}
	if text, ok := d["content"].(string); ok && !strings.HasPrefix(d["toolCallId"].(string), "r-") {
		words = append(words, text)
	}
	if v, ok := d["value"].(map[string]any); ok {
		words = append(words, v["messageId"].(string))
	}
	for _, key := range []string{"metadata", "providerMetadata"} {
		if m, ok := d[key].(map[string]any); ok && m["holdfast"].(map[string]any)["void"] == true {
			words = append(words, "void")
		}
	}
	if o, ok := d["outcome"].(map[string]any); ok {
		words = append(words, o["type"].(string))
		interrupts, _ := o["interrupts"].([]any)
		for _, i := range interrupts {
			words = append(words, i.(map[string]any)["id"].(string))
		}
	}
	return strings.Join(words, " ")
}

func TestFrontEnds(t *testing.T) {
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			for name, p := range map[string]struct {
				encode encoder
				want   []string
			}{"UIMessages": {uichat.Write, s.ui}, "AGUI": {agui.Write, s.agui}} {
				w, err := encoded(t, p.encode, s.show())
				if !errors.Is(err, s.err) || w.Code != http.StatusOK ||
					w.Header().Get("Content-Type") != "text/event-stream" {
					t.Errorf("%s: status %d, %v", name, w.Code, err)
				}
				if got := w.Header().Get("x-vercel-ai-ui-message-stream"); (got == "v1") != (name == "UIMessages") {
					t.Errorf("%s: the header is %q", name, got)
				}
				if strings.Contains(w.Body.String(), "card 4711") {
					t.Errorf("%s tells the text of an error: %s", name, w.Body)
				}
				var got []string
				for _, doc := range documents(t, w.Body.String()) {
					got = append(got, sum(t, doc))
				}
				if p.want != nil && !slices.Equal(got, p.want) {
					t.Errorf("%s sends\n%q, want\n%q", name, got, p.want)
				}
			}
		})
	}
}

// AG-UI is told the tokens of a turn if there are any.
func TestAGUIUsage(t *testing.T) {
	for usage, want := range map[orchestrator.Usage]bool{
		{}: false, {Input: 3}: true, {Output: 2}: true, {Cost: 1}: false,
	} {
		s := scene{events: []orchestrator.Event{ev(started), ev(settled)}, reply: turnhttp.Reply{Usage: usage}}
		res, err := encoded(t, agui.Write, s.show())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(res.Body.String(), `"usage":[`); got != want {
			t.Errorf("%+v: %s", usage, res.Body)
		}
	}
}
