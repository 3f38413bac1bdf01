package chorus

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
)

// A Guard decides to which addresses the gateway may connect on behalf of a
// URL that somebody else gave it. Its decisions are pure.
type Guard struct{ allow []netip.Prefix }

// NewGuard makes a guard that allows public addresses and, besides them, those
// inside the given prefixes.
func NewGuard(allow []netip.Prefix) *Guard {
	g := &Guard{}
	for _, p := range allow {
		// An IPv4-mapped prefix would never match an unmapped address.
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		g.allow = append(g.allow, p.Masked())
	}
	return g
}

// ErrTargetRefused means that the gateway may not connect to an address.
var ErrTargetRefused = errors.New("this address is not public; an operator allows it with --allow-target")

// refusedRanges are the addresses that are not public, and why. An address that
// carries an IPv4 address inside (see embedded) is judged by that one too.
var refusedRanges = []struct {
	why      string
	prefixes []netip.Prefix
}{
	{"unspecified", prefixes("0.0.0.0/8", "::/128")},
	{"loopback", prefixes("127.0.0.0/8", "::1/128")},
	{"private", prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10")},
	{"link-local", prefixes("169.254.0.0/16", "fe80::/10")},
	{"multicast", prefixes("224.0.0.0/4", "ff00::/8")},
	{"reserved", prefixes("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "100::/64", "2001:db8::/32", "3fff::/20", "5f00::/16", "64:ff9b:1::/48")},
	{"tunnelled", prefixes("2001::/32", "::/96")},
}

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// Check returns why the gateway may not connect to an address, and nil if it may.
// The error wraps ErrTargetRefused.
func (g *Guard) Check(addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	if !addr.IsValid() {
		return fmt.Errorf("not an address: %w", ErrTargetRefused)
	}
	for _, p := range g.allow {
		if p.Contains(addr) {
			return nil
		}
	}
	for _, r := range refusedRanges {
		for _, p := range r.prefixes {
			if p.Contains(addr) {
				return fmt.Errorf("%s is %s: %w", addr, r.why, ErrTargetRefused)
			}
		}
	}
	if inner, ok := embedded(addr); ok {
		return g.Check(inner)
	}
	return nil
}

var (
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4  = netip.MustParsePrefix("2002::/16")
	isatap1 = [4]byte{0x00, 0x00, 0x5e, 0xfe}
	isatap2 = [4]byte{0x02, 0x00, 0x5e, 0xfe}
)

// embedded returns the IPv4 address to which a translated or tunnelled IPv6
// address leads.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	mark := [4]byte(b[8:12])
	switch {
	case nat64.Contains(addr), mark == isatap1, mark == isatap2:
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixTo4.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// control is the net.Dialer hook: it sees the address that is about to be
// connected to, after every spelling, name and redirect has been resolved.
func (g *Guard) control(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("not an address: %w", ErrTargetRefused)
	}
	return g.Check(ap.Addr())
}

// maxURL bounds the URLs that others give, in bytes.
const maxURL = 4096

// CheckURL returns why a URL cannot be a target, and nil if it can: it must be
// absolute, http or https, name a host and carry neither user nor fragment. A host written as an
// address is judged at once; a name is judged when it is dialled. The error
// holds nothing of the URL but its address, because URLs here are secrets.
func (g *Guard) CheckURL(raw string) error {
	if len(raw) > maxURL {
		return fmt.Errorf("the URL is longer than %d bytes", maxURL)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("not a URL") // the parser's error repeats the URL
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("the URL must begin with http:// or https://")
	case u.Hostname() == "" || u.Opaque != "":
		return errors.New("the URL names no host")
	case !isPort(u.Port()):
		return errors.New("the URL's port must be 1 to 65535")
	case u.User != nil:
		return errors.New("the URL must not carry a user name or password")
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return errors.New("the URL must not carry a fragment")
	}
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.Check(addr)
	}
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return g.Check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return nil
}

// isPort reports whether a URL's port is valid. An empty one stands for that of the
// scheme.
func isPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// hostOf returns the host and port of a URL. Nothing else of it may be shown.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(unreadable)"
	}
	return u.Host
}

// isLoopbackHost reports whether a host name, without port, can only mean this
// machine.
func isLoopbackHost(host string) bool {
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
