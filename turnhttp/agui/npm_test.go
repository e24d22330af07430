package agui_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/npm"
)

// few are the checks that run without HOLDFAST_TEST_CLIENTS.
var few = []string{"text", "tools", "state", "approval", "repeat"}

// HttpAgent, as npm has it, talks with the handler. Processes are killed meanwhile.
func TestHttpAgent(t *testing.T) {
	names := few
	if os.Getenv("HOLDFAST_TEST_CLIENTS") != "" {
		names = nil
	}
	npm.Dir(t)
	p := startShop(t)
	cmd := npm.Node(t, "testdata/checks.mjs", append([]string{"http://" + p.addr, p.control()}, names...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var told []struct {
		Name, Error string
		MS          int
	}
	if err := json.Unmarshal(out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:], &told); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range told {
		t.Run(c.Name, func(t *testing.T) {
			if t.Logf("%d ms", c.MS); c.Error != "" {
				t.Error(c.Error)
			}
		})
	}
	if len(told) < len(few) {
		t.Errorf("%d checks were made", len(told))
	}
}
