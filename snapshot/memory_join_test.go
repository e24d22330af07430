package snapshot_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

func TestMemoryJoin(t *testing.T) {
	snapshottest.RunJoiner(t, func(*testing.T) (snapshottest.JoiningStore, checkpoint.Store) {
		return new(snapshot.Memory), new(checkpoint.Memory)
	})
	wrapped := struct{ checkpoint.Store }{new(checkpoint.Memory)}
	if new(snapshot.Memory).Join(wrapped) != nil {
		t.Error("joins with a store that may do something else")
	}
}
