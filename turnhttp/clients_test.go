package turnhttp_test

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/npm"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// EventSource, fetch-event-source and openapi-typescript, as npm has them, take what the handler sends.
func TestClients(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_CLIENTS") == "" {
		t.Skip("the test needs packages of npm: run make clients")
	}
	w := newWorld()
	server := httptest.NewServer(turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	cmd := npm.Node(t, "testdata/clients.mjs", server.URL, t.TempDir(),
		"../turnhttp/openapi.json", "../workflow/workflowhttp/openapi.json")
	var said strings.Builder
	cmd.Stderr = &said
	if out, err := cmd.Output(); err != nil {
		t.Errorf("%v: %s%s", err, out, &said)
	}
}
