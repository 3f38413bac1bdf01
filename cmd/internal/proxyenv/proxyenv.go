// Package proxyenv makes ALL_PROXY name the proxy for HTTP and HTTPS unless a variable of the
// scheme does, as in curl. Go reads only those variables, and reads them once: a library may do
// so while packages are initialized. Because this package imports so little, and because of its
// path, it is initialized before net/http and everything that imports it.
//
// Go ignores a value that it cannot parse, and then uses no proxy. [Check] refuses it.
package proxyenv

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
)

// Names lists the variables that Go reads.
var Names = []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"}

func init() { adopt() }

func adopt() {
	proxy := strings.TrimSpace(cmp.Or(os.Getenv("ALL_PROXY"), os.Getenv("all_proxy")))
	if host, ok := strings.CutPrefix(proxy, "socks://"); ok { // as desktops write it
		proxy = "socks5://" + host
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		if proxy != "" && os.Getenv(name) == "" && os.Getenv(strings.ToLower(name)) == "" {
			os.Setenv(name, proxy) //nolint:errcheck // both texts come from the environment
		}
	}
}

// Check returns an error if a variable does not hold the address of a proxy. The error does not
// contain the value, which may have a password.
func Check() error {
	for _, name := range Names[:4] {
		if value := os.Getenv(name); value != "" && !isProxy(value) {
			return fmt.Errorf("%s (or ALL_PROXY) is not the address of a proxy such as http://proxy.example:3128 or "+
				"socks5://proxy.example:1080", name)
		}
	}
	return nil
}

// isProxy reports whether Go can use a value, which may lack the scheme http.
func isProxy(value string) bool {
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	u, err := url.Parse(value)
	return err == nil && u.Host != "" && slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme)
}
