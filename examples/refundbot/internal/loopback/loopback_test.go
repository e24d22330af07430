package loopback

import "testing"

func TestNamed(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:8080": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]": true, "[::1]:80": true,
		"": false, ":80": false, "evil.example": false, "evil.example:80": false, "localhost.evil.example": false,
		"127.0.0.1.evil.example": false, "0.0.0.0": false, "10.0.0.1:80": false, "[::]:80": false, "[::2]": false,
	} {
		if got := Named(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}
