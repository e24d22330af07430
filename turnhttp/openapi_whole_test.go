package turnhttp_test

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/openapitest"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// methods says where a handler has other routes than the document. The handler must not know the client.
func methods(t *testing.T, d *openapitest.Document, h http.Handler) []error {
	t.Helper()
	return d.Methods(h, http.StatusUnauthorized, func(method, path string) *http.Request {
		return request{
			method: method, path: path, header: map[string]string{"Authorization": "wrong"},
		}.make(t.Context(), "")
	})
}

// The document is whole, has the routes and the problems of the handler, and no others.
func TestOpenAPI(t *testing.T) {
	doc := openAPI(t)
	for _, err := range doc.Faults() {
		t.Error(err)
	}
	w := newWorld()
	for _, err := range methods(t, doc, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())) {
		t.Error(err)
	}
	wantSame(t, "routes", doc.Templates(), turnhttp.Routes())
	const refusals = `Refuse\([^,]*, "([a-z-]+)"|Type: "([a-z-]+)"`
	refused := append(found(t, "problem.go", refusals), found(t, "../internal/httpjson/refusal.go", refusals)...)
	known := found(t, "../orchestrator/public.go", `Problem\{\s*"([a-z-]+)"|Type: "([a-z-]+)"`)
	var types []string
	for _, each := range slices.Concat(refused, known) {
		if each != "ok" && !slices.Contains(types, "/problems/"+each) {
			types = append(types, "/problems/"+each)
		}
	}
	wantSame(t, "problems", doc.ProblemTypes(), types)
	refused = slices.DeleteFunc(refused, func(name string) bool {
		return slices.Contains(known, name) && name != "not-found"
	})
	wantSame(t, "problems of the package comment", found(t, "doc.go", `(?m)^//\t([a-z-]+) +[45][0-9][0-9] `), refused)
}

// found returns the words that the groups of an expression find in a file of Go.
func found(t *testing.T, file, expression string) (all []string) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(string(source), -1) {
		all = append(all, strings.Join(m[1:], ""))
	}
	if len(all) < 5 {
		t.Fatalf("%s has only %v", file, all)
	}
	return all
}

func wantSame(t *testing.T, what string, documented, want []string) {
	t.Helper()
	for _, err := range openapitest.Differences(what, documented, want) {
		t.Error(err)
	}
}

// A broken document is convicted.
func TestOpenAPIFaults(t *testing.T) {
	for _, tt := range []struct{ name, old, new string }{
		{"another version", `"3.1.0"`, `"3.0.0"`},
		{"no title", `"title": "Sessions of a bot"`, `"x": ""`},
		{"a reference to nothing", `"#/components/schemas/Turn"`, `"#/components/schemas/Turns"`},
		{"a parameter that is not required", `"required": true,`, `"required": false,`},
		{"a path without its name", `"/sessions/{id}/effects/{eid}"`, `"/sessions/{id}/effects/{other}"`},
		{"one id twice", `"operationId": "getSession"`, `"operationId": "deleteSession"`},
		{"204 with content", `"204": {`, `"204": {"content": {"application/json": {"schema": {}}},`},
		{"200 without a schema", `"schema": {
                  "$ref": "#/components/schemas/Session"
                }`, `"x": 0`},
		{"a response without a description", `"description": "The session.",
            "content"`, `"content"`},
		{"a keyword that is not checked", `"format": "date-time"`, `"pattern": "x"`},
		{"a member that is required, and is not there", `"required": [
          "intents"`, `"required": ["intent", "intents"`},
		{"an open object", `"additionalProperties": false`, `"description": ""`},
		{"a part that is not used", `"schemas": {`, `"schemas": {"More": {"type": "string"},`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			broken := openAPIOf(t, func(doc []byte) []byte {
				if !bytes.Contains(doc, []byte(tt.old)) {
					t.Fatalf("the document has no %s", tt.old)
				}
				return bytes.ReplaceAll(doc, []byte(tt.old), []byte(tt.new))
			})
			if len(broken.Faults()) == 0 {
				t.Error("it is taken for whole")
			}
		})
	}
}

// A brokenHandler changes what a handler answers.
type brokenHandler struct {
	name string
	of   func(r *http.Request, res *httptest.ResponseRecorder) (status int, body string)
}

func replacing(old, replacement string) func(*http.Request, *httptest.ResponseRecorder) (int, string) {
	return func(_ *http.Request, res *httptest.ResponseRecorder) (int, string) {
		return res.Code, strings.ReplaceAll(res.Body.String(), old, replacement)
	}
}

func header(name, value string, of ...int) func(*http.Request, *httptest.ResponseRecorder) (int, string) {
	return func(_ *http.Request, res *httptest.ResponseRecorder) (int, string) {
		if len(of) == 0 || slices.Contains(of, res.Code) {
			res.Header().Set(name, value)
		}
		return res.Code, res.Body.String()
	}
}

func status(old, now int, method string) func(*http.Request, *httptest.ResponseRecorder) (int, string) {
	return func(r *http.Request, res *httptest.ResponseRecorder) (int, string) {
		if res.Code == old && (method == "" || method == r.Method) {
			return now, res.Body.String()
		}
		return res.Code, res.Body.String()
	}
}

var brokenHandlers = []brokenHandler{
	{"a status that is not documented", status(200, 201, "")},
	{"another status for nothing", status(204, 206, "")},
	{"another status for an error", status(400, 418, "")},
	{"a problem as JSON", header("Content-Type", "application/json", 400)},
	{"JSON as text", header("Content-Type", "text/plain", 200)},
	{"JSON with a charset", header("Content-Type", "application/json; charset=utf-8", 200)},
	{"no JSON", replacing(`{`, `[`)},
	{"a turn without its number", replacing(`"turn":`, `"turns":`)},
	{"a turn with a member more", replacing(`"replayed":`, `"again":true,"replayed":`)},
	{"a turn without its replay", replacing(`"replayed":false,`, ``)},
	{"a cost that is text", replacing(`"cost":0`, `"cost":"0"`)},
	{"a time that is none", replacing(`"saved":"2`, `"saved":"x2`)},
	{"steps that are null", replacing(`"steps":[`, `"steps":null,"x":[`)},
	{"a session without turns", replacing(`"turns":[`, `"all":[`)},
	{"a message without its parts", replacing(`"parts":`, `"pieces":`)},
	{"a part of another type", replacing(`"tool_result"`, `"result"`)},
	{"a stop that says nothing", replacing(`"stopping":`, `"stopped":`)},
	{"an input of another status", replacing(`"settled"`, `"done"`)},
	{"a question without its sum", replacing(`"sum":`, `"hash":`)},
	{"an effect of another class", replacing(`"class":"ask"`, `"class":"asked"`)},
	{"an effect that is half a number", replacing(`"attempt":1`, `"attempt":1.5`)},
	{"a problem of another type", replacing(`/problems/bad-request`, `/problems/bad`)},
	{"a problem without its title", replacing(`"title":`, `"text":`)},
	{"an event of another kind", replacing(`"kind":"token"`, `"kind":"word"`)},
	{"an event under another name", replacing("event: token", "event: routed")},
	{"an event with a member more", replacing(`"delta":`, `"text":"","delta":`)},
	{"a reply that is no turn", replacing("event: reply", "event: problem")},
	{"204 with a body", func(_ *http.Request, res *httptest.ResponseRecorder) (int, string) {
		if res.Code == http.StatusNoContent {
			return 204, "{}"
		}
		return res.Code, res.Body.String()
	}},
	{"a route more", func(r *http.Request, res *httptest.ResponseRecorder) (int, string) {
		if strings.HasSuffix(r.URL.Path, "/nothing") {
			return 200, "{}"
		}
		return res.Code, res.Body.String()
	}},
	{"a method more", status(405, 200, "PUT")},
	{"a method less", status(401, 405, "DELETE")},
	{"HEAD is not taken", status(401, 405, "HEAD")},
	{"405 is 404", status(405, 404, "")},
	{"405 without Allow", header("Allow", "", 405)},
	{"405 with other methods", header("Allow", "GET", 405)},
}

// The checks convict a handler that answers otherwise than the document says.
func TestOpenAPIConvicts(t *testing.T) {
	doc := openAPI(t)
	for _, broken := range append(brokenHandlers, brokenHandler{name: "none"}) {
		t.Run(broken.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				good := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
				h := good
				if broken.of != nil {
					h = changed(good, broken)
				}
				errs := append(methods(t, doc, h), sees(t, doc, good, h)...)
				if (len(errs) > 0) != (broken.of != nil) {
					t.Errorf("it finds %v", errs)
				}
			})
		})
	}
}

func changed(good http.Handler, broken brokenHandler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		res := httptest.NewRecorder()
		good.ServeHTTP(res, r)
		status, body := broken.of(r, res)
		maps.Copy(w.Header(), res.Header())
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

// sees asks a handler for some of everything, and checks what it answers. good serves the same bot.
func sees(t *testing.T, d *openapitest.Document, good, h http.Handler) []error {
	t.Helper()
	var errs []error
	ask := func(q request) {
		res := q.to(t.Context(), h)
		errs = append(errs, d.Check(q.method, q.path, res.Code, res.Header().Get("Content-Type"), res.Body.Bytes()))
	}
	ask(routes["turn"])
	ask(with("turn", func(q *request) {
		q.key, q.header = "k2", map[string]string{"Accept": "text/event-stream"}
	}))
	ask(with("turn", func(q *request) { q.body = `{"x":1}` }))
	ask(routes["resume"])
	ask(routes["unpark"])
	ask(routes["session"])
	ask(routes["input"])
	ask(routes["messages"])
	ask(routes["stop"])
	ask(request{method: "GET", path: "/sessions/s/nothing"})
	q := says("ask q1 100")
	q.key = "k3"
	q.to(t.Context(), good)
	ask(routes["questions"])
	time.Sleep(time.Second)
	ask(routes["events"])
	q = says("pay")
	q.key = "k4"
	q.to(t.Context(), good)
	ask(routes["effects"])
	if err := errors.Join(errs...); err != nil {
		return []error{err}
	}
	return nil
}
