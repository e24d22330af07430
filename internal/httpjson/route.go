package httpjson

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A Route is a method and the segments of a path. In a path, "*" is any name. A Route without a method takes none. The
// routes of a handler embed it.
type Route struct {
	Method string
	Path   []string
}

// On returns a route. The path has no slash in front.
func On(method, path string) Route { return Route{method, strings.Split(path, "/")} }

func (at Route) route() Route { return at }

// Find returns the route of a request, and the names that stand in its path where the route has "*". The path begins
// with prefix, which has a slash in front and none behind, or is "". If no route has the path, the error is
// ErrNotFound. If those that have it take other methods, the error is ErrMethod, and the header Allow has them.
//
// It is no http.ServeMux: see docs/decisions/0097-rooms-of-their-own.md.
func Find[R interface{ route() Route }](h http.Header, r *http.Request, prefix string, routes []R) (
	found R, names []string, _ error,
) {
	path, err := segments(r.URL)
	for want := range strings.SplitSeq(strings.TrimPrefix(prefix, "/"), "/") {
		switch {
		case prefix == "":
		case len(path) == 0 || path[0] != want:
			return found, nil, ErrNotFound
		default:
			path = path[1:]
		}
	}
	if err != nil {
		return found, nil, ErrNotFound
	}
	var allowed []string
	known := false
	for _, one := range routes {
		at := one.route()
		switch names, ok := at.match(path); {
		case !ok:
		case slices.Contains(at.methods(), r.Method):
			return one, names, nil
		default:
			known, allowed = true, append(allowed, at.methods()...)
		}
	}
	if !known {
		return found, nil, ErrNotFound
	}
	h.Set("Allow", strings.Join(allowed, ", "))
	return found, nil, ErrMethod
}

// match returns the names in a path that stand where the route has "*".
func (at Route) match(path []string) (names []string, ok bool) {
	ok = slices.EqualFunc(at.Path, path, func(want, got string) bool {
		if want == "*" {
			names = append(names, got)
			return true
		}
		return want == got
	})
	return names, ok
}

// methods returns the methods of the route. Like a pattern of http.ServeMux, a GET also takes HEAD.
func (at Route) methods() []string {
	switch at.Method {
	case "":
		return nil
	case http.MethodGet:
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{at.Method}
}

// segments returns the names of a path, unescaped.
func segments(u *url.URL) ([]string, error) {
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
