//go:build unix

package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

var some = []need{
	{"pgbouncer", "/usr/sbin/pgbouncer", "pgbouncer", "there is a pooler to test"},
	{"stdlib.h", "/usr/include/stdlib.h", "libc6-dev", "gcc needs headers"},
}

func TestSetup(t *testing.T) {
	refused := errors.New("only root can install packages")
	for _, tt := range []struct {
		name      string
		missing   []need
		may       error
		installed []string
		says      []string
	}{
		{"complete", nil, refused, nil, []string{"no program is missing"}},
		{
			"as root", some, nil,
			[]string{"pgbouncer", "libc6-dev"},
			[]string{"pgbouncer is missing", "there is a pooler to test", "package libc6-dev", "installing"},
		},
		{
			"without root", some, refused, nil,
			[]string{"gcc needs headers", "apt-get install --no-install-recommends pgbouncer libc6-dev\n"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			var installed []string
			err := setup(&out, tt.missing, func() error { return tt.may }, func(packages []string) error {
				installed = packages
				return nil
			})
			if want := len(tt.missing) > 0 && tt.may != nil; (err != nil) != want {
				t.Errorf("error %v", err)
			}
			if !slices.Equal(installed, tt.installed) {
				t.Errorf("installed %q, want %q", installed, tt.installed)
			}
			for _, part := range tt.says {
				if !strings.Contains(out.String(), part) {
					t.Errorf("it does not say %q:\n%s", part, &out)
				}
			}
		})
	}
}

func TestFetch(t *testing.T) {
	refused := errors.New("the registry is away")
	for _, gone := range []bool{false, true} {
		var out strings.Builder
		err := fetch(&out, func() (bool, error) { return gone, nil }, func() error { return refused })
		if errors.Is(err, refused) != gone || strings.Contains(out.String(), "packages of npm are missing") != gone {
			t.Errorf("missing %t: error %v, and it says %q", gone, err, &out)
		}
	}
	err := fetch(new(strings.Builder), func() (bool, error) { return true, refused }, func() error { return nil })
	if !errors.Is(err, refused) {
		t.Errorf("it does not know whether packages are missing: error %v", err)
	}
}

func TestCheckSetup(t *testing.T) {
	if err := checkSetup(nil); err != nil {
		t.Error(err)
	}
	if err := checkSetup(some); err == nil || !strings.Contains(err.Error(), "pgbouncer, stdlib.h: run make setup") {
		t.Errorf("got %v", err)
	}
}
