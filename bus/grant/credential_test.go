package grant_test

import (
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/bus/grant"
	"hubbub/protocol"
)

func TestCredential_Grants(t *testing.T) {
	c := grant.Credential{
		Name: "x", Identities: []string{"tg:*", "cli:op"}, Subscribe: []string{"tg:*", "news:?"}, Publish: []string{"agent:*", "odd*name"},
	}
	for id, want := range map[protocol.PeerID]bool{"tg:1": true, "tg:": true, "cli:op": true, "cli:ops": false, "agent:tg:1": false, "TG:1": false} {
		if c.MayBe(id) != want {
			t.Errorf("may be %s: %t; want %t", id, !want, want)
		}
	}
	for topic, want := range map[string]bool{"agent:a": true, "agents": false, "odd*name": true, "odd name": true, "tg:1": false, "*": false} {
		if c.MayPublish(topic) != want {
			t.Errorf("may send to %s: %t; want %t", topic, !want, want)
		}
	}
	for p, want := range map[protocol.Pattern]bool{
		"tg:*": true, "tg:1": true, "tg:?*": true, "t*": false, "*": false, "news:?": true, "news:1": true, "news:*": false, "news:??": false,
	} {
		if c.MaySubscribe(p) != want {
			t.Errorf("may subscribe to %s: %t; want %t", p, !want, want)
		}
	}
	for id, want := range map[protocol.PeerID]bool{"tg:1": true, "cli:op": true, "agent:a": true, "news:1": true, "news:12": false, "cli:ops": false, "system:spawn": false} {
		if c.MaySee(id) != want {
			t.Errorf("may see %s: %t; want %t", id, !want, want)
		}
	}
	none := grant.Credential{Name: "none", Identities: []string{"tg:1"}}
	if none.MayPublish("tg:1") || none.MaySubscribe("tg:1") || none.MayBe("tg:2") {
		t.Error("what was not granted is allowed")
	}
}

// TestMayIssue_OnlyNarrowerCredentials tries to widen each list.
func TestMayIssue_OnlyNarrowerCredentials(t *testing.T) {
	issuer := grant.Credential{
		Name: "system", Identities: []string{"agent:system"}, Subscribe: []string{"system:*"}, Publish: []string{"tg:*"}, Issue: []string{"agent:tg-*"},
		Names: []string{"boss"},
	}
	good := grant.Credential{
		Name: "agent", Identities: []string{"agent:tg-1"}, Subscribe: []string{"agent:tg-1", "system:*"}, Publish: []string{"tg:1", "agent:tg-*"},
		Issue: []string{"agent:tg-1-*"},
	}
	for name, c := range map[string]struct {
		change func(*grant.Credential)
		want   string
	}{
		"as it is":         {func(*grant.Credential) {}, ""},
		"no identity":      {func(c *grant.Credential) { c.Identities = nil }, "at least one identity"},
		"a wider identity": {func(c *grant.Credential) { c.Identities = []string{"agent:*"} }, `identity "agent:*" lies outside`},
		"another one":      {func(c *grant.Credential) { c.Identities = append(c.Identities, "agent:system") }, `identity "agent:system" lies outside`},
		"wider issue":      {func(c *grant.Credential) { c.Issue = []string{"*"} }, `issue pattern "*" lies outside`},
		"wider subscribe":  {func(c *grant.Credential) { c.Subscribe = []string{"tg:1"} }, `subscribe pattern "tg:1" lies outside`},
		"names":            {func(c *grant.Credential) { c.Names = []string{"tg-2", "boss"} }, ""},
		"another name":     {func(c *grant.Credential) { c.Names = []string{"evil"} }, `the name of "agent:evil" lies outside`},
		"every name":       {func(c *grant.Credential) { c.Names = []string{"*"} }, `the name of "agent:*" lies outside`},
		"wider publish":    {func(c *grant.Credential) { c.Publish = []string{"system:spawn"} }, `publish pattern "system:spawn" lies outside`},
	} {
		child := good
		c.change(&child)
		err := issuer.MayIssue(&child)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
	if err := good.MayIssue(&good); err == nil {
		t.Error("agent:tg-1-* may issue agent:tg-1")
	}
	issuer.Issue = nil
	if err := issuer.MayIssue(&good); err == nil || !strings.Contains(err.Error(), "may not issue") {
		t.Errorf("an identity that may issue nothing: %v", err)
	}
}

func TestNewToken_Has256Bits(t *testing.T) {
	token := grant.NewToken()
	if b, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(b) != 32 || token == grant.NewToken() {
		t.Errorf("%q: %v", token, err)
	}
}

func TestCheck_ReportsInvalidCredential(t *testing.T) {
	f := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
	long := strings.Repeat("x", 129)
	for _, c := range []grant.Credential{
		{Name: "", Identities: []string{"a"}}, {Name: "-x", Identities: []string{"a"}}, {Name: "a b", Identities: []string{"a"}},
		{Name: long, Identities: []string{"a"}}, {Name: "x", Identities: []string{"[a]"}}, {Name: "x", Subscribe: []string{""}},
		{Name: "x", Publish: []string{long}}, {Name: "x", Issue: []string{"*********"}},
		{Name: "x", Identities: []string{"a"}, Names: []string{"cli:boss"}}, {Name: "x", Identities: []string{"a"}, Names: []string{"@boss"}},
	} {
		if err := c.CheckGrants(); err == nil {
			t.Errorf("%+v is said to be right", c)
		}
		if _, err := f.Create(c); err == nil {
			t.Errorf("%+v was created", c)
		}
	}
	if !f.Open() || len(f.List()) != 0 {
		t.Error("a refused credential closed the bus")
	}
	for _, name := range []string{"x", long[:128], "a.b_c:d-e"} {
		if _, err := f.Create(grant.Credential{Name: name, Identities: []string{"a"}}); err != nil {
			t.Errorf("%.20s: %v", name, err)
		}
	}
	if list := f.List(); len(list) != 3 || list[0].Name != "a.b_c:d-e" || list[2].Name != long[:128] {
		t.Errorf("the list is %v", list)
	}
}
