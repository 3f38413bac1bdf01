package main

import (
	"strings"
	"testing"

	"hubbub/cmd/internal/program"

	"github.com/spf13/pflag"
)

func TestCheck_RefusesBoundsThatLetNothingThrough(t *testing.T) {
	check := func(flag, value string) error {
		var s settings
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		program.AddFlags(fs, s.all()...)
		if err := fs.Set(flag, value); err != nil {
			t.Fatal(err)
		}
		return program.CheckBounds(s.all()...)
	}
	for flag, least := range map[string]string{
		"peer-window": "1", "peer-queue": "1", "peer-queue-bytes": "1", "peer-buffer": "1", "slow-bytes": "1", "max-frame": "1", "max-subscriptions": "1",
		"max-sessions": "1", "activity-queue": "1", "activity-queue-bytes": "1", "activity-wal": "1",
		"credential-sessions": "1", "credential-subscriptions": "1", "credential-messages": "1", "credential-bytes": "1", "credential-log-bytes": "1",
		"activity-segment-rows": "1", "activity-segment-bytes": "1", "activity-segment-age": "1ms",
		"delivery-timeout": "1ms", "initialize-timeout": "1ms", "write-timeout": "1ms", "ping-interval": "1ms", "activity-hold": "1ms",
	} {
		if err := check(flag, least); err != nil {
			t.Errorf("--%s %s is refused: %v", flag, least, err)
		}
		for _, bad := range []string{"0", "-1" + least[1:]} {
			if check(flag, bad) == nil {
				t.Errorf("--%s %s is not refused", flag, bad)
			}
		}
	}
}

func TestCheck_TakesOriginsAsBrowsersSendThem(t *testing.T) {
	for _, o := range []string{
		"https://ops.example.com", "http://127.0.0.1:8080", "http://[::1]:8080", "https://ops.example.com:18443", "http://ops.example.com:443",
		"https://xn--bcher-kva.example", "http://localhost:3000", "https://my_host.example", "chrome-extension://abcdefghijklmnop", "tauri://localhost", "https://a.example.",
		"https://a.0b1", "https://1_000", "https://a.0o17", "https://a.0xg", "https://a.1e5",
	} {
		if err := checkOrigins([]string{o}); err != nil {
			t.Errorf("%q is refused: %v", o, err)
		}
	}
}

func TestCheck_RefusesWhatNoBrowserSends(t *testing.T) {
	for o, want := range map[string]string{
		"https://ops.example.com:443": "write https://ops.example.com", "http://[::1]:80": "write http://[::1]", "http://a.example:080": "write http://a.example",
		"https://ops.example.com/": "write https://ops.example.com", "https://a.example:8443/b/?c#d": "write https://a.example:8443", "https://u:p@a.example": "write https://a.example",
		"HTTPS://Ops.Example.COM": "write https://ops.example.com", "https://a.example:": "write https://a.example", "ops.example.com": "write https://ops.example.com",
		"//ops.example.com": "write https://ops.example.com", "ops.example.com:8443": "write https://ops.example.com:8443", " https://a.example": "write https://a.example",
		"https://bücher.example": "write https://xn--bcher-kva.example", "http://[0:0:0:0:0:0:0:1]:81": "write http://[::1]:81", "http://[FE80::A]": "write http://[fe80::a]",
		"https://a.example:08443": "write https://a.example:8443", "http://ops.example.com:443/": "write http://ops.example.com:443",
		"*": "wildcards", "https://*.example.com": "wildcards", "null": "null", "": "give a scheme", "https://": "give a scheme", "https:///path": "give a scheme",
		"wss://ops.example.com": "by https or http", "file:///x": "give a scheme", "https://a.example:0": "1 to 65535", "https://a.example:65536": "1 to 65535",
		"http://127.1": "give a scheme", "http://0x7f.0.0.1": "give a scheme", "https://a b": "give a scheme", "https://a..b": "give a scheme",
		"http://0x": "give a scheme", "http://a.0xFf": "give a scheme", "http://a.08": "give a scheme", "http://1.99999999999999999999999": "give a scheme",
		"https://a.example:0b1": "give a scheme", "https://a.example:1_000": "give a scheme",
	} {
		if err := checkOrigins([]string{"https://fine.example", o}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", o, err, want)
		}
	}
}

func TestCheck_RefusesContradictorySettings(t *testing.T) {
	check := func(args ...string) error {
		var s settings
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		program.AddFlags(fs, s.all()...)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		return s.check()
	}
	for _, good := range [][]string{
		nil, {"--listen", ":7892", "--plaintext"}, {"--listen", "[::1]:0"}, {"--listen", "localhost:http"},
		{"--cluster", "nats://10.0.0.1:4222"}, {"--cluster", "10.0.0.1:4222,tls://b"}, {"--cluster", "wss://u:p@nats.example.com/ws"},
		{"--cluster-name", ""}, {"--cluster-name", "a.b-c"}, {"--activity-required"}, {"--no-activity-log"},
		{"--cluster-cert", "c.pem", "--cluster-key", "k.pem"}, {"--name", strings.Repeat("x", 256), "--cluster-name", strings.Repeat("x", 256)},
	} {
		if err := check(good...); err != nil {
			t.Errorf("%q is refused: %v", good, err)
		}
	}
	for _, bad := range [][]string{
		{"--listen", "x"}, {"--listen", "127.0.0.1:"}, {"--listen", ""}, {"--listen", "127.0.0.1:99999"}, {"--listen", "127.0.0.1:no-such-service"},
		{"--cluster", "http://10.0.0.1:4222"}, {"--cluster", "nats://"}, {"--cluster", "nats://a:b:c"}, {"--cluster", "nats://a:port"},
		{"--cluster-name", "a b"}, {"--cluster-name", "a..b"}, {"--cluster-name", ".a"}, {"--cluster-name", "*"}, {"--cluster-name", "a.>"},
		{"--no-activity-log", "--activity-required"}, {"--no-activity-log", "--cluster", "nats://a", "--activity-stream", "S"},
		{"--activity-stream", "A B", "--cluster", "nats://a"}, {"--activity-stream", "a.b", "--cluster", "nats://a"},
		{"--cluster-cert", "c.pem"}, {"--cluster-key", "k.pem"},
		{"--name", "a\xff"}, {"--cluster-name", "a\ufeff"}, {"--name", strings.Repeat("x", 257)}, {"--cluster-name", strings.Repeat("x", 257)},
	} {
		if check(bad...) == nil {
			t.Errorf("%q is not refused", bad)
		}
	}
}
