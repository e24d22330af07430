package httpjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Problems begins the type of a problem document, unless a Site has another ProblemBase.
const Problems = "/problems/"

// A Site has what the Options of each handler say alike. [Site.Open] completes it.
type Site struct {
	Origins     []string       // pages of these origins may call
	Credentials bool           // and may send cookies
	ProblemBase string         // begins the type of a problem document; "" means Problems
	Security    map[string]any // the security schemes of the OpenAPI document
	Document    []byte         // OpenAPI

	anyone  bool   // all origins may call
	headers string // what pages may send
}

// Open completes s. It refuses options that cannot be meant.
func (s Site) Open() (*Site, error) {
	headers := []string{"Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "Prefer"}
	var schemes map[string]struct{ In, Name string }
	doc, err := json.Marshal(s.Security)
	if err != nil || json.Unmarshal(doc, &schemes) != nil {
		return nil, errors.New("option Security has what is no security scheme of OpenAPI")
	}
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		if schemes[name].In == "header" && !slices.Contains(headers, schemes[name].Name) {
			headers = append(headers, schemes[name].Name)
		}
	}
	s.headers = strings.Join(headers, ", ")
	for _, origin := range s.Origins {
		u, err := url.Parse(origin)
		switch {
		case origin == "*":
			s.anyone = true
		case err != nil || u.Host == "" || origin != strings.ToLower(u.Scheme+"://"+u.Host):
			return nil, fmt.Errorf("option Origins has %q: an origin is like https://app.example.com", origin)
		}
	}
	if s.anyone && s.Credentials {
		return nil, errors.New("option Origins has * with Credentials: any page could act as its reader")
	}
	u, err := url.Parse(s.ProblemBase)
	switch ends := strings.HasSuffix(s.ProblemBase, "/") || strings.HasSuffix(s.ProblemBase, "#"); {
	case s.ProblemBase == "":
		s.ProblemBase = Problems
	case err != nil, u.Host == "", !ends:
		return nil, errors.New("option ProblemBase has to be an absolute URL that ends in / or #")
	}
	return &s, s.complete()
}

// complete makes the document say what the options say.
func (s *Site) complete() error {
	if s.ProblemBase == Problems && len(s.Security) == 0 {
		return nil
	}
	var root map[string]any
	if err := json.Unmarshal(s.Document, &root); err != nil {
		return err
	}
	at := func(path ...string) map[string]any {
		v := root
		for _, name := range path {
			v, _ = v[name].(map[string]any)
		}
		return v
	}
	kind := at("components", "schemas", "Problem", "properties", "type")
	types, _ := kind["enum"].([]any)
	for i, each := range types {
		types[i] = s.ProblemBase + strings.TrimPrefix(each.(string), Problems)
	}
	if len(s.Security) > 0 {
		either := []any{}
		for _, name := range slices.Sorted(maps.Keys(s.Security)) {
			either = append(either, map[string]any{name: []any{}})
		}
		root["security"], at("components")["securitySchemes"] = either, s.Security
		at("paths", "/openapi.json", "get")["security"] = []any{} // all may read it
	}
	doc, err := json.MarshalIndent(root, "", "  ")
	s.Document = doc
	return err
}

// ServeDocument answers with the OpenAPI document.
func (s *Site) ServeDocument(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(s.Document)
}

// Admit says in the headers of an answer whether the page that has sent the request may read it.
func (s *Site) Admit(h http.Header, r *http.Request) {
	if len(s.Origins) == 0 {
		return
	}
	from := r.Header.Values("Origin")
	switch {
	case s.anyone:
		h.Set("Access-Control-Allow-Origin", "*")
	case len(from) == 1 && slices.Contains(s.Origins, from[0]):
		h.Set("Access-Control-Allow-Origin", from[0])
	}
	if !s.anyone {
		h.Add("Vary", "Origin")
	}
	if h.Get("Access-Control-Allow-Origin") == "" {
		return
	}
	h.Set("Access-Control-Expose-Headers", "Allow, Location, Preference-Applied, Retry-After")
	if s.Credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

// Preflight answers OPTIONS of a path that has routes, if pages of other origins may call. err is what Find returned. A
// browser asks so before a page sends what a form could not send, and without what Authorize looks at.
func (s *Site) Preflight(w http.ResponseWriter, r *http.Request, err error) (answered bool) {
	if len(s.Origins) == 0 || !errors.Is(err, ErrMethod) {
		return false
	}
	h := w.Header()
	methods := h.Get("Allow")
	h.Set("Allow", strings.TrimPrefix(methods+", OPTIONS", ", "))
	if r.Method != http.MethodOptions {
		return false
	}
	if h.Get("Access-Control-Allow-Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Del("Access-Control-Expose-Headers")
		h.Set("Access-Control-Allow-Methods", methods)
		h.Set("Access-Control-Allow-Headers", s.headers)
		h.Set("Access-Control-Max-Age", "600")
	}
	HurryBody(w, r)
	AllowWrite(w)
	Guard(h)
	w.WriteHeader(http.StatusNoContent)
	return true
}
