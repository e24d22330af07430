package browser

import (
	"encoding/json"
	"fmt"
	"strings"
)

// event notes what went wrong in the page.
func (t *Tab) event(method string, params []byte) {
	switch method {
	case "Runtime.exceptionThrown":
		var thrown struct {
			Details struct {
				Text      string `json:"text"`
				Exception struct {
					Description string `json:"description"`
				} `json:"exception"`
			} `json:"exceptionDetails"`
		}
		if json.Unmarshal(params, &thrown) == nil {
			t.problem("exception: %s %s", thrown.Details.Text, thrown.Details.Exception.Description)
		}
	case "Runtime.consoleAPICalled":
		t.console(params)
	case "Log.entryAdded":
		var log struct {
			Entry struct{ Level, Source, Text, URL string }
		}
		// What the network says comes as an event of the network, too.
		if json.Unmarshal(params, &log) == nil && log.Entry.Level == "error" && log.Entry.Source != "network" {
			t.problem("%s: %s %s", log.Entry.Source, log.Entry.Text, log.Entry.URL)
		}
	case "Network.requestWillBeSent", "Network.loadingFailed", "Network.responseReceived":
		t.network(method, params)
	}
}

func (t *Tab) console(params []byte) {
	var said struct {
		Type string
		Args []struct {
			Value       json.RawMessage
			Description string
		}
	}
	if json.Unmarshal(params, &said) != nil || said.Type != "error" && said.Type != "assert" {
		return
	}
	var text strings.Builder
	for _, arg := range said.Args {
		fmt.Fprintf(&text, " %s%s", arg.Value, arg.Description)
	}
	t.problem("console:%s", &text)
}

func (t *Tab) network(method string, params []byte) {
	var ev struct {
		RequestID string
		Request   struct{ Method, URL string }
		ErrorText string
		Canceled  bool
		Blocked   string `json:"blockedReason"`
		Response  struct {
			Status int
			URL    string
		}
	}
	if json.Unmarshal(params, &ev) != nil {
		return
	}
	t.mu.Lock()
	what := t.requests[ev.RequestID]
	if method == "Network.requestWillBeSent" {
		t.requests[ev.RequestID] = ev.Request.Method + " " + ev.Request.URL
	}
	t.mu.Unlock()
	switch {
	case ev.Response.Status >= 400:
		t.problem("request: %s: status %d", what, ev.Response.Status)
	case ev.ErrorText != "" && !ev.Canceled:
		t.problem("request: %s: %s %s", what, ev.ErrorText, ev.Blocked)
	}
}

func (t *Tab) problem(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.problems = append(t.problems, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Requested returns the URLs that the tab has requested since it was opened, each after its method and in no order.
func (t *Tab) Requested() (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, what := range t.requests {
		list = append(list, what)
	}
	return list
}
