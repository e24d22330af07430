package bootdrain_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// jobEnv makes the test binary a process that does a job.
const jobEnv = "HOLDFAST_TEST_DRAIN_JOB"

func TestMain(m *testing.M) {
	text := os.Getenv(jobEnv)
	if text == "" {
		testenv.Main(m)
	}
	if err := work(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A job is the task of a test process, on the stores of the test.
type job struct {
	Do   string // "execute", "drain", "serve", "besieged", "live", "buy", "ask", "book", "tell" or "vend"
	Site site
	// Body says what the intents do: they "finish", "wait" for their context, or "die" with their process. For "serve"
	// it is the definition, for "buy" how the vendor pays, and for "tell" whether there is a Deliver.
	Body string
	// DieIn is "delete" of the snapshot store, a point of Once or Tx, "any time", or a call of a turn with a log.
	DieIn    string
	Sessions []string // to execute
	Bots     int      // that execute them in turn; 0 means one
	Text     string
	Grace    time.Duration // of a life
}

// The jobs.
const (
	execute  = "execute"
	drainAll = "drain"
	besieged = "besieged"
)

// The values of Body.
const (
	finish = "finish"
	wait   = "wait"
	die    = "die"
)

func (j job) text() string {
	text, err := json.Marshal(j)
	if err != nil {
		panic(err)
	}
	return string(text)
}
