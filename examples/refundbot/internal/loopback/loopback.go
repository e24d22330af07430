// Package loopback keeps what listens on loopback for this machine. A page of the web may let its own name point to
// 127.0.0.1. For a browser it is then of the same origin, and only the Host of its requests tells.
package loopback

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Named reports whether a host, with or without a port, is localhost or an address of loopback.
func Named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	at, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && at.IsLoopback()
}

// Only passes on the requests whose Host is a name of loopback. Others are 421.
func Only(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Named(r.Host) {
			http.Error(w, "this server is reached by the names of loopback only", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}
