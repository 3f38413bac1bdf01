package grant_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/bus/grant"
)

func TestLimits_OfIssuedCredentialLieWithinIssuers(t *testing.T) {
	usual := grant.Limits{Sessions: 1000, Subscriptions: 1000, Messages: 1000, Bytes: 1000, LogBytes: 1000}
	issuer := grant.Limits{Sessions: 5, Subscriptions: 5000, Messages: 5000, Bytes: 5, LogBytes: 5}.WithDefaults(usual)
	asked := grant.Limits{Messages: 2000, Bytes: 7, LogBytes: 3}
	want := grant.Limits{Sessions: 5, Messages: 2000, Bytes: 5, LogBytes: 3}
	if got := asked.CappedAt(issuer, usual); got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
}

// TestLimit_RefusesZero refuses 0 in a request for a credential and in the file,
// where it does not mean that there is no limit.
func TestLimit_RefusesZero(t *testing.T) {
	for bound, right := range map[grant.Limit]bool{-1: false, 0: true, 1: true} {
		c := grant.Credential{Name: "x", SHA256: grant.Hash("x"), Limits: grant.Limits{Bytes: bound}}
		if err := c.Check(); (err == nil) != right {
			t.Errorf("%d: %v", bound, err)
		}
	}
	path := filepath.Join(t.TempDir(), grant.FileName)
	for _, key := range []string{"sessions", "subscriptions", "messages", "bytes", "log-bytes"} {
		for value, right := range map[string]bool{"1": true, "7": true, "0": false, "-1": false, "'7'": false, "1.5": false} {
			text := "[[credential]]\nname = 'x'\nsha256 = '" + grant.Hash("x") + "'\ncredential-" + key + " = " + value + "\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			f := grant.NewFile(path)
			err := f.Reload()
			if !right {
				if err == nil || !strings.Contains(err.Error(), "must be a number of at least 1") {
					t.Errorf("%s of %s: %v", key, value, err)
				}
				continue
			}
			c, ok := f.Lookup("x")
			if err != nil || !ok {
				t.Fatalf("%s of %s: %v", key, value, err)
			}
			b := c.Limits
			got := map[string]grant.Limit{"sessions": b.Sessions, "subscriptions": b.Subscriptions, "messages": b.Messages, "bytes": b.Bytes, "log-bytes": b.LogBytes}[key]
			if want := map[string]grant.Limit{"1": 1, "7": 7}[value]; got != want {
				t.Errorf("%s of %s is %d", key, value, got)
			}
		}
	}
}
