package orchestrator_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
