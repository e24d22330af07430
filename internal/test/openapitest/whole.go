package openapitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
)

// An Operation is a method of a path in the document.
type Operation struct {
	Method, Path string // "GET", "/sessions/{id}"
	at           map[string]any
}

// Operations returns the operations of the document, in order.
func (d *Document) Operations() (all []Operation) {
	paths, _ := d.Root["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item, _ := paths[path].(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			if at, ok := item[method].(map[string]any); ok { // no list of parameters, and no text
				all = append(all, Operation{strings.ToUpper(method), path, at})
			}
		}
	}
	return all
}

// named is a name in the template of a path.
var named = regexp.MustCompile(`\{([^}]*)\}`)

// Faults says where the document is no OpenAPI 3.1 document, or says less than it should.
func (d *Document) Faults() (all []error) {
	fault := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if d.Root["openapi"] != "3.1.0" {
		fault("it is no OpenAPI 3.1")
	}
	info, _ := d.Root["info"].(map[string]any)
	if info["title"] == nil || info["version"] == nil {
		fault("info has no title or no version")
	}
	d.walk(d.Root, "", func(ref, where string) {
		if !strings.HasPrefix(ref, "#/") || d.At(map[string]any{"$ref": ref}) == nil {
			fault("%s: %s is not there", where, ref)
		}
	})
	ids := make(map[string]bool)
	for _, op := range d.Operations() {
		name := op.Method + " " + op.Path
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
func (d *Document) walk(v any, where string, f func(ref, where string)) {
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

func (d *Document) parameterFaults(op Operation) (all []error) {
	item, _ := d.At(d.Root, "paths", op.Path).(map[string]any)
	shared, _ := item["parameters"].([]any)
	own, _ := op.at["parameters"].([]any)
	inPath := make(map[string]bool)
	for _, each := range slices.Concat(shared, own) {
		p, _ := d.At(each).(map[string]any)
		name, _ := p["name"].(string)
		if p["in"] == "path" {
			inPath[name] = p["required"] == true
		}
		if name == "" || p["schema"] == nil || !slices.Contains([]any{"path", "query", "header"}, p["in"]) {
			all = append(all, fmt.Errorf("%s %s has a parameter without name, place or schema", op.Method, op.Path))
		}
	}
	for _, m := range named.FindAllStringSubmatch(op.Path, -1) {
		if !inPath[m[1]] {
			all = append(all, fmt.Errorf("%s %s does not require the parameter %s", op.Method, op.Path, m[1]))
		}
		delete(inPath, m[1])
	}
	for name := range inPath {
		all = append(all, fmt.Errorf("%s %s has no place for %s", op.Method, op.Path, name))
	}
	return all
}

func (d *Document) responseFaults(op Operation) (all []error) {
	responses, _ := op.at["responses"].(map[string]any)
	good := false
	for status, each := range responses {
		good = good || status[0] == '2'
		r, _ := d.At(each).(map[string]any)
		content, _ := r["content"].(map[string]any)
		whole := r["description"] != nil && (status == "204") == (len(content) == 0)
		for _, each := range content {
			m, _ := each.(map[string]any)
			whole = whole && m["schema"] != nil
		}
		if _, problem := content["application/problem+json"]; status != "202" && problem != (status >= "400") {
			whole = false
		}
		if !whole {
			all = append(all, fmt.Errorf("%s %s: the response %s is not whole", op.Method, op.Path, status))
		}
	}
	if !good {
		all = append(all, fmt.Errorf("%s %s has no good response", op.Method, op.Path))
	}
	return all
}

// keywords are those that fits checks, and those that say something to people only.
var keywords = []string{
	"$ref", "anyOf", "enum", "type", "properties", "required", "additionalProperties", "items", "format", "description",
	"minimum", "minLength", "maxLength",
}

// schemaFaults says which schema of the components fits does not check in full, and which part is not used.
func (d *Document) schemaFaults() (all []error) {
	used := make(map[string]bool)
	d.walk(d.Root, "", func(ref, _ string) { used[ref] = true })
	parts, _ := d.Root["components"].(map[string]any)
	names := make(map[string]bool)
	for kind, each := range parts {
		m, _ := each.(map[string]any)
		for name, part := range m {
			if is := strings.ToLower(name); names[is] {
				all = append(all, fmt.Errorf("two components are %s: generators make a type of each", name))
			} else {
				names[is] = true
			}
			if ref := "#/components/" + kind + "/" + name; !used[ref] && kind != "securitySchemes" {
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

// ProblemTypes returns the types of problems in the document.
func (d *Document) ProblemTypes() (all []string) {
	types, _ := d.At(d.Root, "components", "schemas", "Problem", "properties", "type", "enum").([]any)
	for _, each := range types {
		all = append(all, each.(string))
	}
	return all
}

// tried are the methods that each path is asked with.
var tried = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"}

// Methods says where a handler has other routes than the document. ask makes a request of a client that the handler
// refuses with the status refused. All may read the document itself.
func (d *Document) Methods(
	h http.Handler, refused int, ask func(method, path string) *http.Request,
) (all []error) {
	allowed := make(map[string][]string) // by path
	paths, _ := d.At(d.Root, "paths").(map[string]any)
	for path := range paths {
		allowed[path] = nil
	}
	for _, op := range d.Operations() {
		allowed[op.Path] = append(allowed[op.Path], op.Method)
		if op.Method == "GET" {
			allowed[op.Path] = append(allowed[op.Path], "HEAD")
		}
	}
	for path, methods := range allowed {
		slices.Sort(methods)
		for _, method := range tried {
			res := httptest.NewRecorder()
			h.ServeHTTP(res, ask(method, named.ReplaceAllString(path, "x")))
			var allow []string
			if text := res.Header().Get("Allow"); text != "" {
				allow = strings.Split(text, ", ")
			}
			slices.Sort(allow)
			_, told := res.Header()["Allow"]
			switch {
			case !slices.Contains(methods, method):
				if res.Code != 405 || !told || !slices.Equal(allow, methods) || !isMethodProblem(res.Body.Bytes()) {
					all = append(all,
						fmt.Errorf("%s %s is %d, and allows %v, want %v", method, path, res.Code, allow, methods))
				}
			case res.Code != refused && (res.Code != http.StatusOK || path != "/openapi.json"):
				all = append(all, fmt.Errorf("%s %s is %d", method, path, res.Code))
			}
		}
	}
	return all
}

func isMethodProblem(doc []byte) bool {
	var p struct{ Type string }
	return json.Unmarshal(doc, &p) == nil && p.Type == "/problems/method"
}

// Templates returns the method and the path of each operation, with "*" for each name.
func (d *Document) Templates() (all []string) {
	for _, op := range d.Operations() {
		all = append(all, op.Method+" "+named.ReplaceAllString(op.Path, "*"))
	}
	return all
}

// Differences says where what is documented is not what is there.
func Differences(what string, documented, want []string) (all []error) {
	slices.Sort(documented)
	slices.Sort(want)
	for _, each := range want {
		if !slices.Contains(documented, each) {
			all = append(all, fmt.Errorf("%s: %s is not documented", what, each))
		}
	}
	for _, each := range documented {
		if !slices.Contains(want, each) {
			all = append(all, fmt.Errorf("%s: %s is documented, and is not there", what, each))
		}
	}
	if len(documented) != len(want) {
		all = append(all, fmt.Errorf("%s: %d are documented, want %d", what, len(documented), len(want)))
	}
	return all
}
