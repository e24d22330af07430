package redischeckpoint

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// details are the small parts of a checkpoint that are never looked up. They share one field. Each other part has a
// field of its own.
type details struct {
	Layout    int      `json:"layout"`
	Signature string   `json:"signature"`
	Version   string   `json:"version,omitempty"`
	Route     []string `json:"route,omitempty"`
}

const layout = 1

func encode(cp checkpoint.Checkpoint) ([]byte, error) {
	return json.Marshal(details{layout, cp.Signature, cp.Version, cp.Route})
}

// A row is a stored turn: its number, time, run id, request id, details, state and payload.
type row []string

const rowLen = 7

// rows splits the values of a script.
func rows(values []string) []row {
	rs := make([]row, len(values)/rowLen)
	for i := range rs {
		rs[i] = row(values[i*rowLen : (i+1)*rowLen])
	}
	return rs
}

// checkpoint returns the turn as it was appended. If no store wrote the row, checkpoint returns only the number of the
// turn, and a *checkpoint.DamagedError.
func (r row) checkpoint(k checkpoint.Key) (checkpoint.Checkpoint, error) {
	cp, err := r.decode()
	if err != nil {
		return cp, checkpoint.DamagedTurn(k, cp.Turn, err)
	}
	return cp, cp.Intact(k)
}

func (r row) decode() (cp checkpoint.Checkpoint, err error) {
	if cp.Turn, err = strconv.Atoi(r[0]); err != nil {
		return cp, err
	}
	saved, err := strconv.ParseInt(r[1], 10, 64)
	if err != nil {
		return cp, fmt.Errorf("time: %w", err)
	}
	var d details
	if err := json.Unmarshal([]byte(r[4]), &d); err != nil {
		return cp, fmt.Errorf("details: %w", err)
	}
	if d.Layout != layout {
		return cp, fmt.Errorf("layout %d, want %d", d.Layout, layout)
	}
	cp.SavedAt = time.UnixMicro(saved).UTC()
	cp.RunID, cp.RequestID = r[2], r[3]
	cp.Signature, cp.Version, cp.Route = d.Signature, d.Version, d.Route
	cp.State = json.RawMessage(r[5])
	if r[6] != "" {
		cp.Payload = json.RawMessage(r[6])
	}
	return cp, nil
}
