package turnhttp_test

import (
	"bufio"
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
	d.Stream = func(body []byte) error { return validEvents(d, body) }
	return d
}

// validEvents checks each event of a stream.
func validEvents(d *openapitest.Document, body []byte) (err error) {
	names := map[string]string{"reply": "Turn", "problem": "Problem"}
	return errors.Join(readEvents(strings.NewReader(string(body)), func(ev event) bool {
		name := names[ev.kind]
		if name == "" {
			name = "Event"
			if !strings.Contains(ev.data, `"kind":"`+ev.kind+`"`) {
				err = fmt.Errorf("event %s has other data: %s", ev.kind, ev.data)
				return false
			}
		}
		if wrong := d.Valid(d.At(d.Root, "components", "schemas", name), []byte(ev.data)); wrong != nil {
			err = fmt.Errorf("event %s: %w", ev.kind, wrong)
		}
		return err == nil
	}), err)
}
