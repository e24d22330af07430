package turnhttp_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/openapitest"
	"github.com/holdfast-go/holdfast/turnhttp"
)

func scan(r io.Reader, f func(line string) bool) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if !f(lines.Text()) {
			return nil
		}
	}
	return lines.Err()
}

func openAPI(t *testing.T) *openapitest.Document {
	t.Helper()
	return openAPIOf(t, func(doc []byte) []byte { return doc })
}

// openAPIOf returns the document after a change.
func openAPIOf(t *testing.T, change func([]byte) []byte) *openapitest.Document {
	t.Helper()
	w := newWorld()
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	res := request{method: "GET", path: "/openapi.json"}.to(t.Context(), h)
	if res.Code != http.StatusOK {
		t.Fatalf("the document is %d", res.Code)
	}
	d, err := openapitest.New(change(res.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	d.Stream = func(schema any, body []byte) error { return validEvents(d, schema, body) }
	return d
}

// validEvents checks each event of a stream.
func validEvents(d *openapitest.Document, schema any, body []byte) (err error) {
	return errors.Join(readEvents(strings.NewReader(string(body)), func(ev event) bool {
		sent := map[string]any{"event": ev.kind, "data": json.RawMessage(ev.data)}
		if ev.id != "" {
			sent["id"] = ev.id
		}
		doc, wrong := json.Marshal(sent)
		if wrong == nil {
			wrong = d.Valid(schema, doc)
		}
		ending := ev.kind == "reply" || ev.kind == "problem"
		if !ending && !strings.Contains(ev.data, `"kind":"`+ev.kind+`"`) {
			wrong = errors.Join(wrong, errors.New("it has other data"))
		}
		if wrong != nil {
			err = fmt.Errorf("event %s: %w", ev.kind, wrong)
		}
		return err == nil
	}), err)
}
