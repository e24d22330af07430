package deliver

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// errPrivate refuses an address to which no webhook is posted.
var errPrivate = errors.New("the address is not of the public internet: see WebhookOptions.AllowPrivate")

// public refuses a connection to an address that is not of the public internet. It is called for each address, after
// its name was looked up. So a name that has another address at another time changes nothing.
func public(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err == nil && isPublic(at.Addr()) {
		return nil
	}
	return fmt.Errorf("%w: %s", errPrivate, address)
}

// isPublic goes by the registries of special-purpose addresses. Of IPv6, 2000::/3 alone is the internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.Is6() && translated.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	return (a.Is4() || global.Contains(a)) &&
		!slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

var (
	global     = netip.MustParsePrefix("2000::/3")
	translated = netip.MustParsePrefix("64:ff9b::/96") // of NAT64: the end is an address of IPv4
	special    = prefixes(
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	)
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}
