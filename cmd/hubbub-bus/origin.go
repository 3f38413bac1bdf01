package main

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"hubbub/cmd/internal/program"

	"golang.org/x/net/idna"
)

// checkOrigins refuses values that no browser sends as an Origin, because they would allow
// nothing. Its error has the right spelling if there is one.
func checkOrigins(list []string) error {
	for _, o := range list {
		switch sent, err := browserOrigin(o); {
		case err != nil:
			return program.Usage("--allow-origin %q is not an origin such as https://ops.example.com: %s", o, err)
		case sent != o:
			return program.Usage("--allow-origin %q is not what browsers send: write %s", o, sent)
		}
	}
	return nil
}

var (
	errNoOrigin     = errors.New("give a scheme and a host, and a port if it is not the usual one")
	errWildcard     = errors.New("it cannot have wildcards; list each origin")
	errOpaque       = errors.New("browsers send null for pages without an origin, and any page can make one")
	errOriginPort   = errors.New("the port must be a number from 1 to 65535")
	errOriginScheme = errors.New("pages come by https or http")
)

// browserOrigin returns the origin of a page as browsers write it (RFC 6454; the URL Standard):
// scheme and host in lower case, without the usual port, a path, or anything else.
func browserOrigin(text string) (string, error) {
	text = strings.TrimSpace(text)
	switch {
	case strings.EqualFold(text, "null"):
		return "", errOpaque
	case strings.Contains(text, "*"):
		return "", errWildcard
	case !strings.Contains(text, "://"):
		text = "https://" + strings.TrimLeft(text, "/")
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return "", errNoOrigin
	}
	usual := map[string]string{"http": "80", "https": "443"}
	if slices.Contains([]string{"ws", "wss", "file", "data", "blob", "about", "javascript", "ftp"}, u.Scheme) {
		return "", errOriginScheme
	}
	host, err := browserHost(u.Hostname())
	if err != nil {
		return "", err
	}
	origin := u.Scheme + "://" + host
	if u.Port() == "" {
		return origin, nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 0 {
		return "", errOriginPort
	}
	if number := strconv.FormatUint(port, 10); number != usual[u.Scheme] {
		origin += ":" + number
	}
	return origin, nil
}

// browserHost returns a host as browsers write it: an address in its shortest form, a name in
// lower case and in Punycode.
func browserHost(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		if addr.Is6() {
			return "[" + addr.String() + "]", nil
		}
		return addr.String(), nil
	}
	name, err := idna.Lookup.ToASCII(host)
	if err != nil { // browsers accept names that DNS does not, such as those with an underscore
		name = strings.ToLower(host)
	}
	labels := strings.Split(strings.TrimSuffix(name, "."), ".")
	// A number at the end makes it an address, but not as it is written here.
	if isNumber(labels[len(labels)-1]) || slices.Contains(labels, "") || strings.ContainsFunc(name, notInHost) {
		return "", errNoOrigin
	}
	return name, nil
}

// isNumber reports whether browsers read the last label of a host as a number, of any size.
func isNumber(label string) bool {
	hex, isHex := strings.CutPrefix(label, "0x")
	return strings.Trim(label, "0123456789") == "" || isHex && strings.Trim(hex, "0123456789abcdef") == ""
}

func notInHost(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`#%/:<>?@[\]^|`, r)
}
