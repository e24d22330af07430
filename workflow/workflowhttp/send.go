package workflowhttp

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/workflow"
)

// A receiptDoc tells what has become of a message to a run.
type receiptDoc struct {
	Run     string           `json:"run"`
	Receipt workflow.Receipt `json:"receipt"`
	Signal  string           `json:"signal,omitempty"` // its id
}

// deleteRun cancels a run. A client that cancels a run which is over has what it wanted.
func (s *server) deleteRun(w http.ResponseWriter, r *http.Request, to Target) error {
	if _, err := s.run(r.Context(), to); err != nil {
		return err
	}
	receipt, err := s.client.Cancel(r.Context(), to.Run)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, receiptDoc{Run: to.Run, Receipt: receipt})
}

// control returns the serving that pauses or resumes a run.
func (s *server) control(do func(ctx context.Context, run string) (workflow.Receipt, error)) serving {
	return func(w http.ResponseWriter, r *http.Request, to Target) error {
		if err := bare(w, r); err != nil {
			return err
		}
		if _, err := s.run(r.Context(), to); err != nil {
			return err
		}
		receipt, err := do(r.Context(), to.Run)
		if err == nil && receipt == workflow.Over {
			err = errOver
		}
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, receiptDoc{Run: to.Run, Receipt: receipt})
	}
}

func (s *server) postSignal(w http.ResponseWriter, r *http.Request, to Target) error {
	id, payload, err := keyed(w, r)
	if err != nil {
		return err
	}
	if err := workflow.ValidateValue("payload", payload); err != nil {
		return invalid(err)
	}
	if _, err := s.run(r.Context(), to); err != nil {
		return err
	}
	receipt, err := s.client.Signal(r.Context(), to.Run, to.Event, payload, id)
	if err == nil && receipt == workflow.Over {
		err = errOver
	}
	if err != nil {
		return err
	}
	status := http.StatusOK
	if receipt == workflow.Kept {
		status = http.StatusAccepted
	}
	return reply(w, status, receiptDoc{to.Run, receipt, id})
}

// keyed reads a body that is a value as a whole, and the key that names it. Without a body the value is nil. Without a
// key it gets one.
func keyed(w http.ResponseWriter, r *http.Request) (key string, doc json.RawMessage, err error) {
	if key, err = httpjson.Key(r); err != nil {
		return "", nil, err
	}
	if key == "" {
		key = workflow.NewID()
	}
	if r.Body == nil || r.Body == http.NoBody {
		return key, nil, bare(w, r)
	}
	if doc, err = httpjson.Read(r); err == nil {
		httpjson.Arrived(w)
	}
	return key, doc, err
}
