package workflowhttp

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/workflow"
)

// A stepDoc is a row of the journal, or a signal in the mailbox. A damaged one has its name alone.
type stepDoc struct {
	Name     string           `json:"name"`
	Index    int              `json:"index"`
	Kind     workflow.Kind    `json:"kind"`
	Outcome  workflow.Outcome `json:"outcome"`
	Output   json.RawMessage  `json:"output,omitempty"`
	Error    string           `json:"error,omitempty"`
	Attempts int              `json:"attempts,omitempty"`
	Until    time.Time        `json:"until,omitzero"`
	Signal   string           `json:"signal,omitempty"`

	Started   time.Time `json:"started"`
	Completed time.Time `json:"completed"`
	Seconds   float64   `json:"seconds"` // from Started to Completed

	Damaged bool `json:"damaged,omitempty"`
}

// getSteps writes the journal step by step: it may be larger than memory should hold twice.
func (s *server) getSteps(w http.ResponseWriter, r *http.Request, to Target) error {
	if _, err := s.run(r.Context(), to); err != nil {
		return err
	}
	first := true
	for step, err := range s.front.Steps(r.Context(), to.Run) {
		_, damaged := errors.AsType[*workflow.DamagedError](err)
		if err != nil && !damaged {
			return err
		}
		if first {
			begin(w)
		}
		if err := writeStep(w, &step, damaged, first); err != nil {
			return err
		}
		first = false
	}
	if first {
		begin(w)
	}
	_, _ = io.WriteString(w, "]}\n")
	return nil
}

func begin(w http.ResponseWriter) {
	httpjson.AllowWrite(w)
	w.Header().Set("Content-Type", "application/json")
	httpjson.Guard(w.Header())
	_, _ = io.WriteString(w, `{"steps":[`)
}

func writeStep(w http.ResponseWriter, s *workflow.Step, damaged, first bool) error {
	doc := stepDoc{
		s.Name, s.Index, s.Kind, s.Outcome, s.Output, s.Error, s.Attempts, s.Until, s.Signal, s.Started, s.Completed,
		s.Completed.Sub(s.Started).Seconds(), false,
	}
	if damaged {
		doc = stepDoc{Name: s.Name, Damaged: true}
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return errors.Join(errInternal, err)
	}
	if !first {
		b = append([]byte{','}, b...)
	}
	httpjson.AllowWrite(w)
	_, err = w.Write(b)
	return err
}
