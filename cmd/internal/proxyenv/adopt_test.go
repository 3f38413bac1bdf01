package proxyenv

import (
	"os"
	"strings"
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
		"a desktop's socks": {
			set:  map[string]string{"ALL_PROXY": "socks://p:1/"},
			want: map[string]string{"HTTP_PROXY": "socks5://p:1/", "HTTPS_PROXY": "socks5://p:1/"},
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

func TestCheck_RefusesInvalidProxy(t *testing.T) {
	for value, ok := range map[string]bool{
		"":                            true,
		"p.example":                   true,
		"p.example:3128":              true,
		"127.0.0.1:3128":              true,
		"http://user:pw@p.example:1/": true,
		"https://[::1]:3128":          true,
		"socks5h://p.example:1080":    true,
		"http://":                     false,
		"http:p.example:3128":         false,
		"http://p.example:port":       false,
		"http://user:pw%zz@p.example": false,
		"socks4://user:pw@p.example":  false,
		"ftp://p.example":             false,
	} {
		for _, name := range Names {
			t.Setenv(name, "")
		}
		t.Setenv("https_proxy", value)
		err := Check()
		if (err == nil) != ok {
			t.Errorf("%q: %v", value, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "https_proxy") || strings.Contains(err.Error(), "pw")) {
			t.Errorf("%q: the error is %q", value, err)
		}
	}
}
