package netguard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A Policy decides to which addresses a program may connect for a URL that somebody else supplied.
// Its decisions are pure.
type Policy struct{ allow []netip.Prefix }

// New makes a guard that allows public addresses over TLS, and the addresses of the given
// prefixes with or without TLS.
func New(allow []netip.Prefix) *Policy {
	g := &Policy{}
	for _, p := range allow {
		// An IPv4-mapped prefix would never match an unmapped address.
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		g.allow = append(g.allow, p.Masked())
	}
	return g
}

// ErrRefused means that the program may not connect to an address.
var ErrRefused = errors.New("this target is refused; an operator allows its addresses with --allow-target")

// refusedRanges lists the addresses that are not public unicast. Its sources, as of 2026-11, are
// IANA's registries of special-purpose addresses (RFC 6890) for IPv4 and IPv6, and the multicast
// ranges of RFC 5771 and RFC 4291. The first rows come from the documentation of cloud providers.
// Registered ranges that are globally reachable but belong to no host, such as those of AS112,
// are refused, too. Public IPv6 unicast lies inside 2000::/3. For an address that embeds an IPv4
// address, the embedded address decides (see embedded).
var refusedRanges = []struct {
	why      string
	prefixes []netip.Prefix
}{
	// Azure: "What is IP address 168.63.129.16?"
	{"of the cloud's host", prefixes("168.63.129.16/32")},
	// Alibaba, Oracle: metadata
	{"of the cloud's host", prefixes("100.100.100.200/32", "192.0.0.192/32")},
	// most, AWS, Google: metadata
	{"of the cloud's host", prefixes("169.254.169.254/32", "fd00:ec2::254/128", "fd20:ce::254/128")},
	// IBM Cloud VPC: service endpoints
	{"of the cloud's own services", prefixes("161.26.0.0/16", "166.8.0.0/14")},
	// RFC 791, RFC 4291
	{"unspecified", prefixes("0.0.0.0/8", "::/128")},
	// RFC 1122, RFC 4291
	{"loopback", prefixes("127.0.0.0/8", "::1/128")},
	// RFC 1918, RFC 4193
	{"private", prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")},
	{"of a carrier's own network", prefixes("100.64.0.0/10")}, // RFC 6598
	// RFC 3927, RFC 4291
	{"link-local", prefixes("169.254.0.0/16", "fe80::/10")},
	{"site-local", prefixes("fec0::/10")}, // RFC 3879
	// RFC 5771, RFC 4291
	{"multicast", prefixes("224.0.0.0/4", "ff00::/8")},
	// RFC 6890, RFC 7450, RFC 2928 (Teredo, ORCHID and others)
	{"for protocols", prefixes("192.0.0.0/24", "192.52.193.0/24", "2001::/23")},
	{"for documents", prefixes("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")}, // RFC 5737
	// RFC 3849, RFC 9637
	{"for documents", prefixes("2001:db8::/32", "3fff::/20")},
	// RFC 2544; of IPv6 inside 2001::/23
	{"for benchmarks", prefixes("198.18.0.0/15")},
	// RFC 7535, RFC 7534
	{"for AS112", prefixes("192.31.196.0/24", "192.175.48.0/24", "2620:4f:8000::/48")},
	// 6to4: RFC 7526, RFC 3056
	{"tunnelled", prefixes("192.88.99.0/24", "2002::/16")},
	{"translated", prefixes("64:ff9b:1::/48")}, // RFC 8215
	// RFC 1112, with the broadcast address
	{"reserved", prefixes("240.0.0.0/4")},
}

// globalUnicast6 is the only range of public IPv6 unicast (IANA, IPv6 address space).
var globalUnicast6 = netip.MustParsePrefix("2000::/3")

// ParsePrefix parses a value of --allow-target: a CIDR prefix or one address.
func ParsePrefix(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// AllAddresses allows every address, for callers that check only the form of a URL.
var AllAddresses = prefixes("0.0.0.0/0", "::/0")

// Loopback allows the addresses of this machine only.
var Loopback = prefixes("127.0.0.0/8", "::1/128")

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// Check returns nil if the program may connect to an address, with clear meaning without TLS.
// Otherwise the error wraps ErrRefused.
func (g *Policy) Check(addr netip.Addr, clear bool) error {
	addr = addr.WithZone("").Unmap()
	if !addr.IsValid() {
		return fmt.Errorf("not an address: %w", ErrRefused)
	}
	if slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	for _, r := range refusedRanges {
		if slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return fmt.Errorf("%s is %s, not public: %w", addr, r.why, ErrRefused)
		}
	}
	inner, ok := embedded(addr)
	switch {
	case ok:
		return g.Check(inner, clear)
	case addr.Is6() && !globalUnicast6.Contains(addr):
		return fmt.Errorf("%s is not public: %w", addr, ErrRefused)
	case clear:
		return fmt.Errorf("%s would be called in the clear, by http and not https: %w", addr, ErrRefused)
	}
	return nil
}

// isNamed reports whether an operator allows an address, other than by allowing all addresses.
func (g *Policy) isNamed(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	return slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Bits() > 0 && p.Contains(addr) })
}

// allowsAll reports whether an operator allows every address.
func (g *Policy) allowsAll() bool {
	return !slices.ContainsFunc(AllAddresses, func(all netip.Prefix) bool { return !slices.Contains(g.allow, all) })
}

var (
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: how IPv6-only networks reach IPv4
	isatap1 = [4]byte{0x00, 0x00, 0x5e, 0xfe}       // RFC 5214
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
	if nat64.Contains(addr) || mark == isatap1 || mark == isatap2 {
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return netip.Addr{}, false
}

// control makes the net.Dialer hook for connections with or without TLS. It receives the address
// to connect to, after names and redirects have been resolved.
func (g *Policy) control(clear bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("not an address: %w", ErrRefused)
		}
		return g.Check(ap.Addr(), clear)
	}
}

// MaxURL limits the URLs that others supply, in bytes.
const MaxURL = 4096

// CheckURL returns nil if a URL can be a target. It must be absolute, use http or https, name a
// host, and carry neither user nor fragment. CheckURL checks a host that is an IP address; a name
// is checked when it is dialled. It refuses http if the guard allows no plaintext connections.
// The error reveals nothing of the URL except its address: URLs here are secrets.
func (g *Policy) CheckURL(raw string) error {
	if len(raw) > MaxURL {
		return fmt.Errorf("the URL is longer than %d bytes", MaxURL)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("not a URL") // the parser's error would reveal the URL
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
	host, clear := u.Hostname(), u.Scheme == "http"
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.Check(addr, clear)
	}
	switch {
	case strings.EqualFold(strings.TrimSuffix(host, "."), "localhost"):
		return g.Check(netip.AddrFrom4([4]byte{127, 0, 0, 1}), clear)
	case clear && len(g.allow) == 0:
		return fmt.Errorf("the URL must begin with https://: %w", ErrRefused)
	}
	return nil
}

// isPort reports whether a URL's port is valid. An empty port means the default of the scheme.
func isPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// HostForLog returns the host and port of a URL. The rest of it must not be logged.
func HostForLog(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(unreadable)"
	}
	return u.Host
}

// IsLoopback reports whether a host name, without port, always means this machine.
func IsLoopback(host string) bool {
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
