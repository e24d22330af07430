package workflowhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/workflow"
)

// A startedDoc is the answer to a start.
type startedDoc struct {
	ID       string          `json:"id"`
	Workflow string          `json:"workflow,omitempty"`
	Version  int             `json:"version"`
	Status   workflow.Status `json:"status"`
	New      bool            `json:"new"`
}

func (s *server) postRun(w http.ResponseWriter, r *http.Request, to Target) error {
	n, err := newRun(w, r, to.Workflow)
	if err == nil {
		err = invalid(n.Validate())
	}
	if err != nil {
		return err
	}
	started, err := s.front.Start(r.Context(), []workflow.NewRun{n})
	if err != nil {
		return err
	}
	doc := startedDoc{started[0].ID, to.Workflow, started[0].Version, started[0].Status, started[0].New}
	w.Header().Set("Location", s.Prefix+"/workflows/"+to.Workflow+"/runs/"+url.PathEscape(doc.ID))
	if !doc.New {
		return reply(w, http.StatusOK, doc)
	}
	return reply(w, http.StatusCreated, doc)
}

// newRun reads the body of a start.
func newRun(w http.ResponseWriter, r *http.Request, name string) (n workflow.NewRun, err error) {
	key, err := httpjson.Key(r)
	if err != nil {
		return n, err
	}
	all, err := httpjson.Body(w, r, "input", "version", "idempotencyKey", "retentionDays", "delaySeconds", "group",
		"debounce")
	if err != nil {
		return n, err
	}
	n = workflow.NewRun{ID: workflow.NewID(), Workflow: name, Input: all["input"], Key: key}
	var seconds float64
	for member, into := range map[string]any{
		"version": &n.Version, "retentionDays": &n.RetentionDays, "delaySeconds": &seconds,
	} {
		if v, ok := all[member]; ok && json.Unmarshal(v, into) != nil {
			return n, httpjson.ErrBadRequest.Because("The member " + member + " has to be a number.")
		}
	}
	if most := workflow.MaxDelay.Seconds(); seconds > most || seconds < 0 {
		return n, invalid(fmt.Errorf("delaySeconds has to be from 0 to %.0f", most))
	}
	n.Delay = time.Duration(seconds * float64(time.Second))
	if v, ok := all["debounce"]; ok && json.Unmarshal(v, &n.Debounce) != nil {
		return n, httpjson.ErrBadRequest.Because("The member debounce has to be true or false.")
	}
	if n.Group, err = httpjson.Text(all, "group"); err != nil {
		return n, err
	}
	switch key, err := httpjson.Text(all, "idempotencyKey"); {
	case err != nil:
		return n, err
	case n.Key == "":
		n.Key = key
	case key != "" && key != n.Key:
		return n, httpjson.ErrBadRequest.Because("The header Idempotency-Key and the member idempotencyKey differ.")
	}
	return n, nil
}

// A runDoc is a run. A damaged one has what can be read of it.
type runDoc struct {
	ID       string          `json:"id"`
	Workflow string          `json:"workflow"`
	Version  int             `json:"version"`
	Status   workflow.Status `json:"status"`
	Hold     workflow.Hold   `json:"hold,omitempty"`

	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`

	Key           string `json:"idempotencyKey,omitempty"`
	Parent        string `json:"parent,omitempty"`
	Group         string `json:"group,omitempty"`
	RetentionDays int    `json:"retentionDays"`

	Started   time.Time `json:"started"`
	Completed time.Time `json:"completed,omitzero"`
	Due       time.Time `json:"due,omitzero"`

	Owner string `json:"owner,omitempty"`
	Event string `json:"event,omitempty"`

	Damaged bool `json:"damaged,omitempty"`
}

// docOf returns the document of a run that came with err. Of a damaged run it has no part that may be no JSON.
func docOf(r *workflow.Run, err error) (doc runDoc, _ error) {
	if _, damaged := errors.AsType[*workflow.DamagedError](err); damaged {
		return runDoc{ID: r.ID, Workflow: r.Workflow, Damaged: true}, nil
	}
	return runDoc{
		r.ID, r.Workflow, r.Version, r.Status, r.Hold, r.Input, r.Output, r.Error, r.Key, r.Parent, r.Group,
		r.RetentionDays, r.Started, r.Completed, r.Due, r.Owner, r.Event, false,
	}, err
}

// run returns the run of a path. A run of another workflow is not there.
func (s *server) run(ctx context.Context, to Target) (runDoc, error) {
	r, err := s.client.Get(ctx, to.Run)
	doc, err := docOf(&r, err)
	if err == nil && doc.Workflow != to.Workflow {
		err = httpjson.ErrNotFound
	}
	return doc, err
}

func (s *server) getRun(w http.ResponseWriter, r *http.Request, to Target) error {
	doc, err := s.run(r.Context(), to)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, doc)
}

// A runsDoc is a page.
type runsDoc struct {
	Runs []runDoc `json:"runs"`
	Next string   `json:"next,omitempty"`
}

func (s *server) getRuns(w http.ResponseWriter, r *http.Request, to Target) error {
	q, err := queryOf(r.URL.RawQuery)
	if err != nil {
		return err
	}
	limit := q.Limit
	q.Workflow, q.Limit = to.Workflow, limit+1 // the run after the page says that there is one
	if err := q.Validate(); err != nil {
		return invalid(err)
	}
	page := runsDoc{Runs: []runDoc{}}
	var last workflow.Run
	size := 0
	for run, err := range s.front.Runs(r.Context(), q) {
		doc, err := docOf(&run, err)
		if err != nil {
			return err
		}
		if len(page.Runs) == limit || size >= mostBytes {
			page.Next = cursorOf(&last)
			break
		}
		page.Runs, last = append(page.Runs, doc), run
		size += len(doc.Input) + len(doc.Output) + len(doc.Error)
	}
	return reply(w, http.StatusOK, page)
}

// A countsDoc says how many runs of a workflow have each status.
type countsDoc struct {
	Name      string `json:"name"`
	Running   int    `json:"running"`
	Completed int    `json:"completed"`
	Failed    int    `json:"failed"`
	Cancelled int    `json:"cancelled"`
}

func (s *server) getIndex(w http.ResponseWriter, r *http.Request, _ Target) error {
	counts, err := s.front.Counts(r.Context())
	if err != nil {
		return err
	}
	index := []countsDoc{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		of := counts[name]
		index = append(index, countsDoc{
			name, of[workflow.Running], of[workflow.Completed], of[workflow.Failed], of[workflow.Cancelled],
		})
	}
	return reply(w, http.StatusOK, index)
}
