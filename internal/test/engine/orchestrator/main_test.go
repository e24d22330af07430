package orchestrator_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// soak reports whether there is time for everything.
func soak() bool { return os.Getenv("HOLDFAST_SOAK") == "1" }
