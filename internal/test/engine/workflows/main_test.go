// Package workflows_test plays runs of workflows in processes that are killed and stopped, on servers that restart,
// stall and are cut off.
package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// jobEnv makes the test binary a process that does a job.
const jobEnv = "HOLDFAST_TEST_WORKFLOWS_JOB"

func TestMain(m *testing.M) {
	text := os.Getenv(jobEnv)
	if text == "" {
		testenv.Main(m)
	}
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		err = j.do(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

var quiet = slog.New(slog.DiscardHandler)
