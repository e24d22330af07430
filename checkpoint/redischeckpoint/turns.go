package redischeckpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redisstore"
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

// maxTurns is small because most readers want the newest turns, and a state may have megabytes.
const maxTurns = 16

// Turns reads pages of 1, 4 and then 16 turns, each in one script.
func (s *Store) Turns(ctx context.Context, k checkpoint.Key, from int) iter.Seq2[checkpoint.Checkpoint, error] {
	return func(yield func(checkpoint.Checkpoint, error) bool) {
		if err := s.turns(ctx, k, from, yield); err != nil {
			yield(checkpoint.Checkpoint{}, fmt.Errorf("redischeckpoint: turns of %q: %w", k.Session, err))
		}
	}
}

// turns returns an error for its caller to yield. If yield wants no more, turns returns nil.
func (s *Store) turns(
	ctx context.Context, k checkpoint.Key, from int, yield func(checkpoint.Checkpoint, error) bool,
) error {
	if err := redisstore.Checked(ctx, k.Validate()); err != nil {
		return err
	}
	for size := 1; ; size = min(4*size, maxTurns) {
		r, err := s.redis.Run(ctx, turnsScript, s.sessionKeys(k), from, size)
		if err != nil {
			return damaged(k, err)
		}
		page := rows(r.Values)
		for _, row := range page {
			cp, err := row.checkpoint(k)
			if !yield(cp, err) {
				return nil
			}
			from = cp.Turn - 1
		}
		if len(page) < size {
			return nil
		}
	}
}
