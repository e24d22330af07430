package workflowhttp

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/workflow"
)

// The types of targets of a subscription.
const (
	typeWorkflow = "workflow"
	typeHTTP     = "http"
	typeSession  = "session"
)

// A subscriptionDoc is a subscription.
type subscriptionDoc struct {
	ID      string `json:"id"`
	Pattern string `json:"pattern"`
	Type    string `json:"type"`
	Name    string `json:"name,omitempty"` // of the workflow
	URL     string `json:"url,omitempty"`
	Session string `json:"session,omitempty"`
}

func docOfSubscription(s workflow.Subscription) subscriptionDoc {
	doc := subscriptionDoc{s.ID, s.Pattern, typeWorkflow, s.Workflow, s.URL, s.Session}
	switch {
	case s.URL != "":
		doc.Type = typeHTTP
	case s.Session != "":
		doc.Type = typeSession
	}
	return doc
}

func (s *server) postSubscription(w http.ResponseWriter, r *http.Request, to Target) error {
	sub, err := subscriptionOf(w, r, to.Topic)
	if err == nil {
		err = invalid(sub.Validate())
	}
	if err == nil {
		err = s.authorize(r, ActionStart, Target{Workflow: starts(&sub)})
	}
	if err == nil {
		err = s.Subscriptions.Subscribe(r.Context(), sub)
	}
	switch {
	case errors.Is(err, workflow.ErrSubscriptions):
		return invalid(workflow.ErrSubscriptions)
	case err != nil:
		return err
	}
	return reply(w, http.StatusCreated, docOfSubscription(sub))
}

// starts returns the workflow whose runs a subscription starts.
func starts(s *workflow.Subscription) string {
	switch {
	case s.URL != "":
		return workflow.WebhookWorkflow
	case s.Session != "":
		return workflow.SessionWorkflow
	}
	return s.Workflow
}

// subscriptionOf reads the body of a subscription. Of the members of targets it has the one of its type.
func subscriptionOf(w http.ResponseWriter, r *http.Request, pattern string) (sub workflow.Subscription, err error) {
	key, err := httpjson.Key(r)
	if err != nil {
		return sub, err
	}
	all, err := httpjson.Body(w, r, "id", "type", "name", "url", "session")
	if err != nil {
		return sub, err
	}
	texts := make(map[string]string)
	for _, name := range []string{"id", "type", "name", "url", "session"} {
		if texts[name], err = httpjson.Text(all, name); err != nil {
			return sub, err
		}
	}
	sub = workflow.Subscription{ID: cmp.Or(texts["id"], key, workflow.NewID()), Pattern: pattern}
	member := map[string]string{typeWorkflow: "name", typeHTTP: "url", typeSession: "session"}[texts["type"]]
	for _, name := range []string{"name", "url", "session"} {
		if (texts[name] != "") != (name == member) || member == "" {
			return sub, httpjson.ErrBadRequest.Because(
				`The type is workflow, with a name, or http, with a url, or session, with a session.`)
		}
	}
	sub.Workflow, sub.URL, sub.Session = texts["name"], texts["url"], texts["session"]
	return sub, nil
}

// subscriptions returns the subscriptions of a pattern, and whether the one of the path has another pattern.
func (s *server) subscriptions(r *http.Request, to Target) (all []subscriptionDoc, elsewhere bool, err error) {
	every, err := s.Subscriptions.Subscriptions(r.Context())
	all = []subscriptionDoc{}
	for _, each := range every {
		if each.Pattern == to.Topic {
			all = append(all, docOfSubscription(each))
		} else if each.ID == to.Subscription {
			elsewhere = true
		}
	}
	return all, elsewhere, err
}

func (s *server) getSubscriptions(w http.ResponseWriter, r *http.Request, to Target) error {
	all, _, err := s.subscriptions(r, to)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, map[string]any{"subscriptions": all})
}

// deleteSubscription can be repeated. A subscription of another pattern is not there.
func (s *server) deleteSubscription(w http.ResponseWriter, r *http.Request, to Target) error {
	_, elsewhere, err := s.subscriptions(r, to)
	switch {
	case err != nil:
		return err
	case elsewhere:
		return httpjson.ErrNotFound
	}
	if err := s.Subscriptions.Unsubscribe(r.Context(), to.Subscription); err != nil {
		return err
	}
	httpjson.AllowWrite(w)
	httpjson.Guard(w.Header())
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// A publishedDoc says which runs a message has.
type publishedDoc struct {
	ID   string       `json:"id"` // of the message
	Runs []startedDoc `json:"runs"`
}

func (s *server) postMessage(w http.ResponseWriter, r *http.Request, to Target) error {
	id, doc, err := keyed(w, r)
	if err != nil {
		return err
	}
	if err := workflow.ValidatePublish(to.Topic, id, doc); err != nil {
		return invalid(err)
	}
	started, err := workflow.Publish(r.Context(), s.front, s.Subscriptions, to.Topic, id, doc)
	if err != nil {
		return err
	}
	runs := []startedDoc{}
	for _, each := range started {
		runs = append(runs, startedDoc{ID: each.ID, Version: each.Version, Status: each.Status, New: each.New})
	}
	return reply(w, http.StatusOK, publishedDoc{id, runs})
}
