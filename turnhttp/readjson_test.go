package turnhttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/turnhttp"
)

// A route of a program's own reads its body as the handler does. What is wrong with the body becomes a problem.
func ExampleReadJSON() {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Name string `json:"name"`
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<16)
		if err := turnhttp.ReadJSON(r, &body); err != nil {
			turnhttp.Problem(w, r, err)
			return
		}
		fmt.Fprintln(w, "hello", body.Name)
	})
	for _, body := range []string{`{"name": "Ann"}`, `{"nome": "Ann"}`} {
		status, doc := send(h, "POST", "/hello", "", body)
		fmt.Println(status, strings.TrimSpace(doc))
	}
	// Output:
	// 200 hello Ann
	// 400 {"type":"/problems/bad-request","title":"The request is malformed.","status":400,"detail":"The member nome is not known."}
}

func TestReadJSON(t *testing.T) {
	long := `{"name": "` + strings.Repeat("x", 100) + `"}`
	for name, tt := range map[string]struct {
		kind, body string
		want       int
	}{
		"an object":         {"application/json; charset=utf-8", ` {"name": "Ann"}`, http.StatusOK},
		"another type":      {"text/plain", `{"name": "Ann"}`, http.StatusUnsupportedMediaType},
		"no type":           {"", `{"name": "Ann"}`, http.StatusUnsupportedMediaType},
		"nothing":           {"application/json", ``, http.StatusBadRequest},
		"no JSON":           {"application/json", `{"name`, http.StatusBadRequest},
		"null":              {"application/json", `null`, http.StatusBadRequest},
		"a list":            {"application/json", `[{"name": "Ann"}]`, http.StatusBadRequest},
		"another member":    {"application/json", `{"name": "Ann", "age": 7}`, http.StatusBadRequest},
		"a member twice":    {"application/json", `{"name": "Eve", "name": "Ann"}`, http.StatusOK},
		"a value of no use": {"application/json", `{"name": 7}`, http.StatusBadRequest},
		"two values":        {"application/json", `{"name": "Ann"} {}`, http.StatusBadRequest},
		"U+0000":            {"application/json", `{"name": "\u0000"}`, http.StatusBadRequest},
		"a long one":        {"application/json", long, http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", strings.NewReader(tt.body))
			r.Header.Set("Content-Type", tt.kind)
			r.Body = http.MaxBytesReader(nil, r.Body, 64)
			var body struct {
				Name string `json:"name"`
			}
			err := turnhttp.ReadJSON(r, &body)
			if got := turnhttp.Status(err); got != tt.want || err == nil && body.Name != "Ann" {
				t.Errorf("%d, %v, %q, want %d", got, err, body.Name, tt.want)
			}
		})
	}
}
