package netguard

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestGuard_RefusesPrivateAddresses(t *testing.T) {
	refused := []string{
		"127.0.0.1", "127.255.255.254", "::1", "0.0.0.0", "0.1.2.3", "::", "10.0.0.1", "172.16.0.1", "172.31.255.255",
		"192.168.1.1", "100.64.0.1", "169.254.169.254", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "fec0::1",
		"224.0.0.1", "255.255.255.255", "ff02::1", "192.0.2.1", "198.18.0.1", "203.0.113.9", "2001:db8::1",
		// the same addresses in other forms
		"::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:169.254.169.254", "::127.0.0.1", "::ffff:0:0",
		"64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a00:1::1",
		"2002:808:808::1", "2001:1::1", "2001:20::1", "2001:1ff:ffff::1", "64:ff9b:1:ffff::808:808", "5f00::1", "100::1", "100:0:0:1::1", "4000::1", "fe00::1",
		"192.0.0.8", "192.0.0.170", "192.88.99.1", "192.31.196.1", "192.52.193.1", "192.175.48.1", "2620:4f:8000::1", "239.1.2.3", "240.0.0.1", "198.19.255.255",
		"3fff::1", "100.127.255.255", "::ffff:0:808:808",
		// the hosts of clouds
		"168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::a83f:8110", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "161.26.0.10", "166.9.24.2",
		"2001:0:4136:e378:8000:63bf:3fff:fdd2", "2606:4700::5efe:127.0.0.1", "2606:4700::200:5efe:10.0.0.1",
	}
	g := New(nil)
	for _, text := range refused {
		if err := g.Check(netip.MustParseAddr(text), false); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: err = %v; want it refused", text, err)
		}
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "172.32.0.1", "192.167.255.255", "100.128.0.1",
		"2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2a00:1450:4001::1", "168.63.129.17", "191.255.255.255"} {
		if err := g.Check(netip.MustParseAddr(text), false); err != nil {
			t.Errorf("%s: %v; want it allowed", text, err)
		}
	}
	if err := g.Check(netip.Addr{}, false); !errors.Is(err, ErrRefused) {
		t.Errorf("the zero address: %v; want it refused", err)
	}
}

func TestGuard_AllowsNamedAddresses(t *testing.T) {
	tests := []struct {
		allow, addr string
		ok          bool
	}{
		{"127.0.0.0/8", "127.0.0.1", true},
		{"127.0.0.0/8", "::ffff:127.0.0.1", true},
		{"127.0.0.0/8", "64:ff9b::127.0.0.1", true},
		{"127.0.0.0/8", "::1", false},
		{"127.0.0.1/32", "127.0.0.2", false},
		{"::ffff:127.0.0.0/104", "127.0.0.1", true},
		{"::1/128", "::1", true},
		{"10.1.0.0/16", "10.1.2.3", true},
		{"10.1.0.0/16", "10.2.0.1", false},
		{"10.1.2.3/16", "10.1.9.9", true}, // host bits of a prefix do not matter
		{"fe80::/10", "fe80::1%eth0", true},
	}
	for _, tt := range tests {
		err := New([]netip.Prefix{netip.MustParsePrefix(tt.allow)}).Check(netip.MustParseAddr(tt.addr), true)
		if (err == nil) != tt.ok {
			t.Errorf("allow %s, dial %s: %v; want ok=%t", tt.allow, tt.addr, err, tt.ok)
		}
	}
}

func TestGuard_ChecksURLs(t *testing.T) {
	g := New(nil)
	for _, raw := range []string{"https://agent.example.com/inbox/sk_1", "https://agent.example.com:8080/x?y=1", "https://8.8.8.8/x", "https://[2606:4700::1]/x"} {
		if err := g.CheckURL(raw); err != nil {
			t.Errorf("%s: %v; want it accepted", raw, err)
		}
	}
	for _, raw := range []string{
		"", "agent.example.com/inbox", "/inbox/sk", "ftp://example.com/x", "file:///etc/passwd", "https:///x", "https://", "http:example.com",
		"https://user:sk_hidden@example.com/", "https://example.com/#frag", "https://example.com/\x00sk_hidden", "javascript:alert(1)",
		"http://agent.example.com:8080/sk_hidden", "http://8.8.8.8/", "http://127.0.0.1/sk_hidden", "http://[::1]:80/", "http://[::ffff:127.0.0.1]/", "http://localhost/", "http://LOCALHOST.:99/", "http://example.com:99999/", "http://example.com:0/", "http://169.254.169.254/latest",
		"https://example.com/" + strings.Repeat("x", MaxURL),
	} {
		err := g.CheckURL(raw)
		if err == nil {
			t.Errorf("%.60q is accepted; want it refused", raw)
		} else if strings.Contains(err.Error(), "sk_hidden") {
			t.Errorf("the error repeats the URL: %v", err)
		}
	}
}

func TestGuard_ChecksTheDialledAddress(t *testing.T) {
	g := New(nil)
	for _, address := range []string{"127.0.0.1:80", "[::1]:80", "[fe80::1%lo]:1", "nonsense", "localhost:80", "168.63.129.16:32526"} {
		if err := g.control(false)("tcp", address, nil); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v; want it refused", address, err)
		}
	}
	if err := g.control(false)("tcp4", "8.8.8.8:443", nil); err != nil {
		t.Error(err)
	}
}

func TestGuard_RequiresTLSUnlessAllowed(t *testing.T) {
	g := New([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("9.9.9.9/32")})
	for address, ok := range map[string]bool{
		"10.1.2.3:80": true, "9.9.9.9:80": true, "8.8.8.8:80": false, "[2606:4700::1]:80": false, "[64:ff9b::808:808]:80": false, "10.2.0.1:80": false,
	} {
		if err := g.control(true)("tcp", address, nil); (err == nil) != ok || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%s in the clear: %v; want ok=%t", address, err, ok)
		}
	}
	for raw, ok := range map[string]bool{
		"http://10.1.2.3/x": true, "http://8.8.8.8/x": false, "https://8.8.8.8/x": true, "http://a.name.example/x": true, // judged when it is dialled
	} {
		if err := g.CheckURL(raw); (err == nil) != ok {
			t.Errorf("%s: %v; want ok=%t", raw, err, ok)
		}
	}
}
