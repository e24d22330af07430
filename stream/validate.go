package stream

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/valid"
)

// The bounds of an Append.
const (
	// MaxChunk is how many bytes a chunk may have, as the shortest JSON.
	MaxChunk = 1 << 20

	// MaxChunks is how many chunks one Append may have, and MaxAppend how many bytes they may have together.
	MaxChunks = 1024
	MaxAppend = 4 << 20
)

// ValidateAppend checks the arguments of Append. It is for the authors of a store.
func ValidateAppend(k Key, run string, epoch int64, s Status, data []json.RawMessage) error {
	if err := cmp.Or(k.Validate(), valid.ID("run id", run)); err != nil {
		return err
	}
	switch {
	case epoch <= 0:
		return fmt.Errorf("%w: epoch %d", ErrInvalid, epoch)
	case !s.Known():
		return fmt.Errorf("%w: status %q", ErrInvalid, s)
	case len(data) > MaxChunks:
		return fmt.Errorf("%w: %d chunks, and %d are the most", ErrInvalid, len(data), MaxChunks)
	}
	size := 0
	for _, doc := range data {
		if err := jsonvalue.CheckWithin(doc, jsonvalue.Bounds{Size: MaxChunk}); err != nil {
			return fmt.Errorf("%w: chunk: %w", ErrInvalid, err)
		}
		size += len(doc)
	}
	if size > MaxAppend {
		return fmt.Errorf("%w: chunks of %d bytes together, and %d are the most", ErrInvalid, size, MaxAppend)
	}
	return nil
}

// KeepOf returns how many chunks a store keeps at least whose options say n. It is for the authors of a store.
func KeepOf(n int) int { return min(cmp.Or(max(n, 0), DefaultKeep), MaxKeep) }

// ValidateRead checks the arguments of Read.
func ValidateRead(k Key, seq int64) error {
	if err := k.Validate(); err != nil {
		return err
	}
	if seq < Newest {
		return fmt.Errorf("%w: number %d", ErrInvalid, seq)
	}
	return nil
}
