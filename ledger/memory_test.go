package ledger_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
)

func TestMemory(t *testing.T) {
	ledgertest.Run(t, func(*testing.T) ledger.Ledger { return new(ledger.Memory) })
}
