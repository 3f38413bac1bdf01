// Package proxyenv makes ALL_PROXY name the proxy for HTTP and HTTPS unless a variable of the scheme
// does, as in curl. Go reads only those variables, and reads them once: a library may do so while
// packages are initialized. Because this package imports so little, and because of its path, it is
// initialized before net/http and all who import that.
package proxyenv

import (
	"cmp"
	"os"
	"strings"
)

func init() { adopt() }

func adopt() {
	proxy := strings.TrimSpace(cmp.Or(os.Getenv("ALL_PROXY"), os.Getenv("all_proxy")))
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		if proxy != "" && os.Getenv(name) == "" && os.Getenv(strings.ToLower(name)) == "" {
			os.Setenv(name, proxy) //nolint:errcheck // both texts come from the environment
		}
	}
}
