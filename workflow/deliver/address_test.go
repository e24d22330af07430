package deliver_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/workflow/deliver"
)

func TestIsPublic(t *testing.T) {
	const (
		yes = `1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.0.1.1 192.169.0.1 198.17.0.1 223.255.255.255
			2606:4700::1 2a00::1 2001:4860::1 ::ffff:8.8.8.8 64:ff9b::808:808`
		no = `0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 127.255.255.255 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.170
			192.0.2.1 192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255
			:: ::1 ::127.0.0.1 ::ffff:10.0.0.1 fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 fec0::1 ff02::1 2001:db8::1
			2001::1 2002:7f00:1:: 3fff::1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 100::1 5f00::1`
	)
	for text, want := range map[string]bool{yes: true, no: false} {
		for _, a := range strings.Fields(text) {
			if got := deliver.IsPublic(netip.MustParseAddr(a)); got != want {
				t.Errorf("%s is public: %t", a, got)
			}
		}
	}
}
