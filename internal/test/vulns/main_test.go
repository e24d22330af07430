package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestReach(t *testing.T) {
	database := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/index/db.json" {
			http.NotFound(w, r)
		}
	}))
	defer database.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for address, reached := range map[string]bool{
		database.URL:              true,
		database.URL + "/":        true,
		database.URL + "/another": false, // as a proxy answers that lets nobody out
		closed.URL:                false,
		"file:///vulns":           true,
		"not an address":          false,
	} {
		if err := reach(t.Context(), address); (err == nil) != reached {
			t.Errorf("%s: %v, want reached: %v", address, err, reached)
		}
	}
}
