package telemetry

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	for want, info := range map[string]*debug.BuildInfo{
		"v1.2.3":  {Deps: []*debug.Module{{Path: "example.com/a", Version: "v9.0.0"}, {Path: module, Version: "v1.2.3"}}},
		"(devel)": {Deps: []*debug.Module{{Path: module}}},
	} {
		if got := version(info); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := version(nil); got != "(devel)" {
		t.Errorf("got %q", got)
	}
}

func TestLatest(t *testing.T) {
	for asks, want := range map[string]bool{
		"": false, "http/dup": false, "gen_ai_latest_experimental": true, "http, gen_ai_latest_experimental ": true,
		"no_gen_ai_latest_experimental": false,
	} {
		if t.Setenv("OTEL_SEMCONV_STABILITY_OPT_IN", asks); Latest() != want {
			t.Errorf("%q is %t", asks, !want)
		}
	}
}
