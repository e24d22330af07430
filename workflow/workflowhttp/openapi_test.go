package workflowhttp_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/openapitest"
	"github.com/holdfast-go/holdfast/workflow/workflowhttp"
)

// openAPI returns the document, after a change.
func openAPI(t *testing.T, change func(string) string) *openapitest.Document {
	t.Helper()
	body := get("/v1/openapi.json").to(t.Context(), newWorld(t).handler()).Body.String()
	if change != nil {
		body = change(body)
	}
	d, err := openapitest.New([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func cursor(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func methods(t *testing.T, d *openapitest.Document, h http.Handler) []error {
	t.Helper()
	return d.Methods(h, http.StatusForbidden, func(method, path string) *http.Request {
		return request{method: method, path: "/v1" + path}.with("Authorization", "other").make(t.Context(), "")
	})
}

// The document is whole, has the routes and the problems of the handler, and no others.
func TestOpenAPI(t *testing.T) {
	doc := openAPI(t, nil)
	all := append(doc.Faults(), methods(t, doc, newWorld(t).handler())...)
	all = append(all, openapitest.Differences("routes", doc.Templates(), workflowhttp.Routes())...)
	const refusals = `Refuse\([^,]*, "([a-z-]+)"|Type: "([a-z-]+)"`
	refused := append(found(t, "problem.go", refusals), found(t, "../../internal/httpjson/refusal.go", refusals)...)
	var types []string
	for _, each := range refused {
		types = append(types, "/problems/"+each)
	}
	all = append(all, openapitest.Differences("problems", doc.ProblemTypes(), types)...)
	comment := found(t, "doc.go", `(?m)^//\t([a-z-]+) +[45][0-9][0-9] `)
	all = append(all, openapitest.Differences("problems of the package comment", comment, refused)...)
	for name, kind := range map[string][2]string{
		"Status": {"Run", "status"}, "Hold": {"Run", "hold"}, "Kind": {"Step", "kind"}, "Outcome": {"Step", "outcome"},
	} {
		values, _ := doc.At(doc.Root, "components", "schemas", kind[0], "properties", kind[1], "enum").([]any)
		for _, word := range found(t, "../workflow.go", `(?m)^\t\w+ +`+name+` += "([a-z]+)"`) {
			if !slices.Contains(values, any(word)) {
				all = append(all, fmt.Errorf("%s %q is not documented", name, word))
			}
		}
	}
	for _, err := range all {
		t.Error(err)
	}
	var listed []string
	name := regexp.MustCompile(`\{[^}]*\}`)
	for _, each := range found(t, "doc.go", `(?m)^//\t((?:GET|POST|DELETE) +/\S+)`) {
		method, path, _ := strings.Cut(each, " ")
		listed = append(listed, method+" "+name.ReplaceAllString(strings.TrimSpace(path), "*"))
	}
	for _, err := range openapitest.Differences("routes of the package comment", listed, workflowhttp.Routes()) {
		t.Error(err)
	}
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
	return all
}

// A broken document, and a handler that answers otherwise than the document says, are convicted.
func TestOpenAPIConvicts(t *testing.T) {
	for _, tt := range []struct{ name, old, new string }{
		{"another version", `"3.1.0"`, `"3.0.0"`},
		{"a reference to nothing", `"#/components/schemas/Run"`, `"#/components/schemas/Runner"`},
		{"one name for two components", `runID"`, `run"`},
		{"one id twice", `"operationId": "getRun"`, `"operationId": "getSteps"`},
		{"an open object", `"additionalProperties": false`, `"description": ""`},
		{"a path without its name", `"/workflows/{name}/runs/{run}/pause"`, `"/workflows/{name}/runs/{id}/pause"`},
	} {
		broken := openAPI(t, func(doc string) string { return strings.ReplaceAll(doc, tt.old, tt.new) })
		if len(broken.Faults()) == 0 {
			t.Errorf("%s: the document is taken for whole", tt.name)
		}
	}
	doc := openAPI(t, nil)
	for _, tt := range []struct {
		name     string
		old, new string
		status   [2]int
	}{
		{"none", "", "", [2]int{}},
		{"a start that is 200", "", "", [2]int{201, 206}},
		{"an id under another name", `"id":`, `"runId":`, [2]int{}},
		{"a run of another status", `"status":"running"`, `"status":"going"`, [2]int{}},
		{"a member more", `"input":`, `"x":1,"input":`, [2]int{}},
		{"a time that is none", `"started":"2`, `"started":"x2`, [2]int{}},
		{"steps that are null", `{"steps":[`, `{"steps":null,"x":[`, [2]int{}},
		{"a step without its duration", `"seconds":`, `"took":`, [2]int{}},
		{"an index of another name", `"running":`, `"open":`, [2]int{}},
		{"a receipt of another word", `"consumed"`, `"taken"`, [2]int{}},
		{"a method more", "", "", [2]int{405, 200}},
		{"a method less", "", "", [2]int{403, 405}},
	} {
		h := changed(newWorld(t).handler(), tt.old, tt.new, tt.status)
		errs := methods(t, doc, h)
		for _, name := range []string{"index", "start", "list", "get", "signal", "steps", "publish"} {
			q := routes[name]
			res := q.to(t.Context(), h)
			path := strings.TrimPrefix(q.path, "/v1")
			errs = append(errs, doc.Check(q.method, path, res.Code, res.Header().Get("Content-Type"), res.Body.Bytes()))
		}
		if err := errors.Join(slices.Clip(errs)...); (err == nil) != (tt.name == "none") {
			t.Errorf("%s: it finds %v", tt.name, err)
		}
	}
}

// changed changes what a handler answers.
func changed(h http.Handler, old, replacement string, status [2]int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		res := httptest.NewRecorder()
		h.ServeHTTP(res, r)
		for name, values := range res.Header() {
			w.Header()[name] = values
		}
		if res.Code == status[0] {
			res.Code = status[1]
		}
		w.WriteHeader(res.Code)
		_, _ = w.Write([]byte(strings.ReplaceAll(res.Body.String(), old, replacement)))
	})
}
