// Package agents_test plays sessions of agents on the stores that a program would use: in processes that are killed,
// and in two processes at once.
package agents_test

import (
	"log/slog"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.MainWith(m, map[string]testenv.Role{roleDies: dies, roleOutside: diesOutside})
}

var quiet = slog.New(slog.DiscardHandler)
