package ledger_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
)

func TestMemory(t *testing.T) {
	ledgertest.Run(t, func(*testing.T) ledger.Ledger { return new(ledger.Memory) })
}

func TestMemoryRaise(t *testing.T) {
	ledgertest.RunRaiser(t, func(*testing.T) ledgertest.Opener {
		m := new(ledger.Memory)
		return func(doubtFor time.Duration) ledgertest.RaisingLedger {
			m.DoubtFor = doubtFor
			return m
		}
	})
}
