package turnhttp_test

import (
	"bytes"
	"errors"
	"fmt"
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

	"github.com/holdfast-go/holdfast/turnhttp"
)

// An operation is a method of a path in the document.
type operation struct {
	method, path string // "GET", "/sessions/{id}"
	at           map[string]any
}

// operations returns the operations of the document, in order.
func (d *document) operations() (all []operation) {
	paths, _ := d.root["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item, _ := paths[path].(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			if method != "parameters" {
				at, _ := item[method].(map[string]any)
				all = append(all, operation{strings.ToUpper(method), path, at})
			}
		}
	}
	return all
}

// named is a name in the template of a path.
var named = regexp.MustCompile(`\{([^}]*)\}`)

// faults says where the document is no OpenAPI 3.1 document, or says less than it should.
func (d *document) faults() (all []error) {
	fault := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if d.root["openapi"] != "3.1.0" {
		fault("it is no OpenAPI 3.1")
	}
	info, _ := d.root["info"].(map[string]any)
	if info["title"] == nil || info["version"] == nil {
		fault("info has no title or no version")
	}
	d.walk(d.root, "", func(ref, where string) {
		if !strings.HasPrefix(ref, "#/") || d.at(map[string]any{"$ref": ref}) == nil {
			fault("%s: %s is not there", where, ref)
		}
	})
	ids := make(map[string]bool)
	for _, op := range d.operations() {
		name := op.method + " " + op.path
		id, _ := op.at["operationId"].(string)
		if id == "" || ids[id] {
			fault("%s has no operationId of its own", name)
		}
		ids[id] = true
		all = append(all, d.parameterFaults(op)...)
		all = append(all, d.responseFaults(op)...)
	}
	return append(all, d.schemaFaults()...)
}

// walk calls f for each reference.
func (d *document) walk(v any, where string, f func(ref, where string)) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			f(ref, where)
		}
		for name, each := range v {
			d.walk(each, where+"/"+name, f)
		}
	case []any:
		for i, each := range v {
			d.walk(each, fmt.Sprintf("%s/%d", where, i), f)
		}
	}
}

func (d *document) parameterFaults(op operation) (all []error) {
	item, _ := d.at(d.root, "paths", op.path).(map[string]any)
	shared, _ := item["parameters"].([]any)
	own, _ := op.at["parameters"].([]any)
	inPath := make(map[string]bool)
	for _, each := range slices.Concat(shared, own) {
		p, _ := d.at(each).(map[string]any)
		name, _ := p["name"].(string)
		if p["in"] == "path" {
			inPath[name] = p["required"] == true
		}
		if name == "" || p["schema"] == nil || !slices.Contains([]any{"path", "query", "header"}, p["in"]) {
			all = append(all, fmt.Errorf("%s %s has a parameter without name, place or schema", op.method, op.path))
		}
	}
	for _, m := range named.FindAllStringSubmatch(op.path, -1) {
		if !inPath[m[1]] {
			all = append(all, fmt.Errorf("%s %s does not require the parameter %s", op.method, op.path, m[1]))
		}
		delete(inPath, m[1])
	}
	for name := range inPath {
		all = append(all, fmt.Errorf("%s %s has no place for %s", op.method, op.path, name))
	}
	return all
}

func (d *document) responseFaults(op operation) (all []error) {
	responses, _ := op.at["responses"].(map[string]any)
	good := false
	for status, each := range responses {
		good = good || status[0] == '2'
		r, _ := d.at(each).(map[string]any)
		content, _ := r["content"].(map[string]any)
		whole := r["description"] != nil && (status == "204") == (len(content) == 0)
		for _, each := range content {
			m, _ := each.(map[string]any)
			whole = whole && m["schema"] != nil
		}
		if _, problem := content["application/problem+json"]; problem != (status >= "400" || status == "202") {
			whole = false
		}
		if !whole {
			all = append(all, fmt.Errorf("%s %s: the response %s is not whole", op.method, op.path, status))
		}
	}
	if !good {
		all = append(all, fmt.Errorf("%s %s has no good response", op.method, op.path))
	}
	return all
}

// keywords are those that fits checks, and those that say something to people only.
var keywords = []string{
	"$ref", "anyOf", "enum", "type", "properties", "required", "additionalProperties", "items", "format", "description",
	"minimum", "minLength", "maxLength",
}

// schemaFaults says which schema of the components fits does not check in full, and which part is not used.
func (d *document) schemaFaults() (all []error) {
	used := make(map[string]bool)
	d.walk(d.root, "", func(ref, _ string) { used[ref] = true })
	parts, _ := d.root["components"].(map[string]any)
	for kind, each := range parts {
		m, _ := each.(map[string]any)
		for name, part := range m {
			// The events of a stream are checked by their names.
			if ref := "#/components/" + kind + "/" + name; !used[ref] && name != "Event" {
				all = append(all, fmt.Errorf("nothing uses %s", ref))
			}
			if kind == "schemas" {
				all = append(all, schemaFaults(part, name)...)
			}
		}
	}
	return all
}

func schemaFaults(v any, where string) (all []error) {
	s, _ := v.(map[string]any)
	for word := range s {
		if !slices.Contains(keywords, word) {
			all = append(all, fmt.Errorf("%s: the keyword %s is not checked", where, word))
		}
	}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, name := range required {
		if properties[name.(string)] == nil {
			all = append(all, fmt.Errorf("%s requires %v, which it does not have", where, name))
		}
	}
	if s["type"] == "object" && s["additionalProperties"] == nil || s["type"] == "array" && s["items"] == nil {
		all = append(all, fmt.Errorf("%s says nothing of what is in it", where))
	}
	for name, each := range properties {
		all = append(all, schemaFaults(each, where+"."+name)...)
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if each, ok := s[name].(map[string]any); ok {
			all = append(all, schemaFaults(each, where+"."+name)...)
		}
	}
	return all
}

// problemTypes returns the types of problems in the document.
func (d *document) problemTypes() (all []string) {
	types, _ := d.at(d.root, "components", "schemas", "Problem", "properties", "type", "enum").([]any)
	for _, each := range types {
		all = append(all, each.(string))
	}
	return all
}

// tried are the methods that each path is asked with.
var tried = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}

// methods says where a handler has other routes than the document. The handler must not know the client.
func (d *document) methods(t *testing.T, h http.Handler) (all []error) {
	t.Helper()
	allowed := make(map[string][]string) // by path
	for _, op := range d.operations() {
		allowed[op.path] = append(allowed[op.path], op.method)
		if op.method == "GET" {
			allowed[op.path] = append(allowed[op.path], "HEAD")
		}
	}
	for path, methods := range allowed {
		slices.Sort(methods)
		for _, method := range tried {
			res := request{
				method: method, path: named.ReplaceAllString(path, "x"),
				header: map[string]string{"Authorization": "wrong"},
			}.to(t.Context(), h)
			allow := strings.Split(res.Header().Get("Allow"), ", ")
			slices.Sort(allow)
			switch {
			case !slices.Contains(methods, method):
				if res.Code != 405 || !slices.Equal(allow, methods) || typeOf(res.Body.Bytes()) != "method" {
					all = append(all,
						fmt.Errorf("%s %s is %d, and allows %v, want %v", method, path, res.Code, allow, methods))
				}
			case res.Code != http.StatusUnauthorized && (res.Code != http.StatusOK || path != "/openapi.json"):
				all = append(all, fmt.Errorf("%s %s is %d", method, path, res.Code))
			}
		}
	}
	return all
}

// The document is whole, has the routes and the problems of the handler, and no others.
func TestOpenAPI(t *testing.T) {
	doc := openAPI(t)
	for _, err := range doc.faults() {
		t.Error(err)
	}
	w := newWorld()
	for _, err := range doc.methods(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())) {
		t.Error(err)
	}
	var documented []string
	for _, op := range doc.operations() {
		documented = append(documented, op.method+" "+named.ReplaceAllString(op.path, "*"))
	}
	wantSame(t, "routes", documented, turnhttp.Routes())
	refused := found(t, "problem.go", `refuse\([^,]*, "([a-z-]+)"|Type: "([a-z-]+)"`)
	known := found(t, "../orchestrator/public.go", `Problem\{\s*"([a-z-]+)"|Type: "([a-z-]+)"`)
	var types []string
	for _, each := range slices.Concat(refused, known) {
		if each != "ok" && !slices.Contains(types, "/problems/"+each) {
			types = append(types, "/problems/"+each)
		}
	}
	wantSame(t, "problems", doc.problemTypes(), types)
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
	slices.Sort(documented)
	slices.Sort(want)
	for _, each := range want {
		if !slices.Contains(documented, each) {
			t.Errorf("%s: %s is not documented", what, each)
		}
	}
	for _, each := range documented {
		if !slices.Contains(want, each) {
			t.Errorf("%s: %s is documented, and is not there", what, each)
		}
	}
	if len(documented) != len(want) {
		t.Errorf("%s: %d are documented, want %d", what, len(documented), len(want))
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
			if len(broken.faults()) == 0 {
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
				errs := append(doc.methods(t, h), doc.sees(t, good, h)...)
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
func (d *document) sees(t *testing.T, good, h http.Handler) []error {
	t.Helper()
	var errs []error
	ask := func(q request) {
		res := q.to(t.Context(), h)
		errs = append(errs, d.check(q.method, q.path, res.Code, res.Header().Get("Content-Type"), res.Body.Bytes()))
	}
	ask(routes["turn"])
	ask(with("turn", func(q *request) {
		q.key, q.header = "k2", map[string]string{"Accept": "text/event-stream"}
	}))
	ask(with("turn", func(q *request) { q.body = `{"x":1}` }))
	ask(routes["resume"])
	ask(routes["session"])
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
