package proxyenv

import (
	"os"
	"testing"
)

func TestAdopt_FillsWhatIsUnset(t *testing.T) {
	for name, c := range map[string]struct{ set, want map[string]string }{
		"nothing": {},
		"blanks":  {set: map[string]string{"ALL_PROXY": " "}},
		"all": {
			set:  map[string]string{"ALL_PROXY": "socks5://p:1"},
			want: map[string]string{"HTTP_PROXY": "socks5://p:1", "HTTPS_PROXY": "socks5://p:1"},
		},
		"lower case": {
			set:  map[string]string{"all_proxy": "http://p:1"},
			want: map[string]string{"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://p:1"},
		},
		"one scheme has its own": {
			set:  map[string]string{"ALL_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:1"},
			want: map[string]string{"HTTP_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:1"},
		},
		"its own in lower case": {
			set:  map[string]string{"ALL_PROXY": "http://p:1", "https_proxy": "http://q:1", "http_proxy": "http://r:1"},
			want: map[string]string{"https_proxy": "http://q:1", "http_proxy": "http://r:1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			names := []string{"ALL_PROXY", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"}
			for _, n := range names {
				t.Setenv(n, c.set[n])
			}
			adopt()
			for _, n := range names[2:] {
				if got := os.Getenv(n); got != c.want[n] {
					t.Errorf("%s is %q; want %q", n, got, c.want[n])
				}
			}
		})
	}
}
