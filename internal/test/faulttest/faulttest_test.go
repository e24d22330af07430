package faulttest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/checkpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newMemory(*testing.T) checkpoint.Store { return new(checkpoint.Memory) }

func TestMemoryModel(t *testing.T) { CheckpointModel(t, newMemory) }

func TestMemorySweepModel(t *testing.T) {
	CheckpointSweepModel(t, func(_ *testing.T, ttl time.Duration) checkpoint.Store {
		return &checkpoint.Memory{TTL: ttl}
	})
}

func TestMemoryUnsettledModel(t *testing.T) {
	CheckpointUnsettledModel(t, func(_ *testing.T, unsettled time.Duration) checkpoint.Store {
		return &checkpoint.Memory{Unsettled: unsettled}
	})
}

func TestMemoryHistories(t *testing.T) { CheckpointHistories(t, newMemory, Histories()) }

func TestMemoryRenewUnderLoad(t *testing.T) { RenewUnderLoad(t, newMemory, 500) }
