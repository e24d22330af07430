package httpjson

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A Route is a method and the segments of a path. In a path, "*" is any name. A Route without a method takes none.
type Route struct {
	Method string
	Path   []string
}

// On returns a route. The path has no slash in front.
func On(method, path string) Route { return Route{method, strings.Split(path, "/")} }

// Match returns the names in a path that stand where the route has "*".
func (at Route) Match(path []string) (names []string, ok bool) {
	ok = slices.EqualFunc(at.Path, path, func(want, got string) bool {
		if want == "*" {
			names = append(names, got)
			return true
		}
		return want == got
	})
	return names, ok
}

// Methods returns the methods of the route. Like a pattern of http.ServeMux, a GET also takes HEAD.
func (at Route) Methods() []string {
	switch at.Method {
	case "":
		return nil
	case http.MethodGet:
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{at.Method}
}

// Takes reports whether the route takes the method.
func (at Route) Takes(method string) bool { return slices.Contains(at.Methods(), method) }

// Segments returns the names of a path, unescaped.
func Segments(u *url.URL) ([]string, error) {
	all := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	for i, name := range all {
		plain, err := url.PathUnescape(name)
		if err != nil {
			return nil, err
		}
		all[i] = plain
	}
	return all, nil
}
