package turnhttp

import (
	"net/http"
	"strconv"
	"strings"
)

// wantsEvents reports whether the client asks for server-sent events, and likes JSON no better.
func wantsEvents(r *http.Request) bool {
	var events, doc float64
	for _, line := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(line, ",") {
			kind, params, _ := strings.Cut(one, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "text/event-stream":
				events = max(events, quality(params))
			case "application/json":
				doc = max(doc, quality(params))
			}
		}
	}
	return events > 0 && events >= doc
}

// quality returns the q of the parameters of a type in Accept. It is 1 if there is none, or none that can be read.
func quality(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && q >= 0 && q <= 1 {
			return q
		}
	}
	return 1
}
