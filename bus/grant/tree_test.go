package grant_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hubbub/bus/grant"
)

// issuing makes a file in which root issued a and b, a issued deep, and alone issued nothing.
func issuing(t *testing.T) *grant.File {
	t.Helper()
	f := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
	tokens := map[string]string{}
	for _, c := range []struct{ issuer, name string }{{"", "root"}, {"", "alone"}, {"root", "b"}, {"root", "a"}, {"a", "deep"}} {
		next := grant.Credential{Name: c.name, Identities: []string{"agent:x"}, Issue: []string{"agent:*"}}
		token, err := "", error(nil)
		if issuer, ok := f.Lookup(tokens[c.issuer]); ok {
			token, err = f.Issue(issuer, next)
		} else {
			token, err = f.Create(next)
		}
		if err != nil {
			t.Fatal(err)
		}
		tokens[c.name] = token
	}
	return f
}

// shape returns the names of the credentials, each with its depth.
func shape(f *grant.File) string {
	var b strings.Builder
	grant.WalkIssued(f.List(), "", func(c *grant.Credential, depth int) { b.WriteString(strings.Repeat(">", depth) + c.Name + " ") })
	return b.String()
}

func TestWalkIssued_VisitsTree(t *testing.T) {
	f := issuing(t)
	if got := shape(f); got != "alone root >a >>deep >b " {
		t.Errorf("the tree is %s", got)
	}
	if got := grant.Issued(f.List(), "root"); !slices.Equal(got, []string{"a", "deep", "b"}) {
		t.Errorf("root issued %q", got)
	}
	root := grant.Credential{Name: "root", SHA256: grant.Hash("another token"), Identities: []string{"agent:x"}}
	if err := f.Put(root); err != nil || shape(f) != "alone root >a >>deep >b " {
		t.Errorf("an issuer that got another token: %v, %s", err, shape(f))
	}
	if err := f.RevokeKeepIssued("a"); err != nil || shape(f) != "alone root >b >deep " {
		t.Errorf("without a alone: %v, %s", err, shape(f))
	}
	if err := f.RevokeKeepIssued("a"); !errors.Is(err, grant.ErrUnknown) {
		t.Errorf("again: %v", err)
	}
	if err := f.RevokeKeepIssued("alone"); err != nil || shape(f) != "root >b >deep " {
		t.Errorf("without the first of the file: %v, %s", err, shape(f))
	}
	if _, err := f.Revoke("root", nil); err != nil || shape(f) != "" {
		t.Errorf("without root and what it issued: %v, %s", err, shape(f))
	}
}

// TestIssue_RefusesRevokedIssuer covers a request that was allowed before, and a name
// that now belongs to another credential.
func TestIssue_RefusesRevokedIssuer(t *testing.T) {
	f := issuing(t)
	list := f.List()
	alone := list[slices.IndexFunc(list, func(c grant.Credential) bool { return c.Name == "alone" })]
	if _, err := f.Revoke("alone", nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := f.Issue(&alone, grant.Credential{Name: "late", Identities: []string{"agent:x"}}); !errors.Is(err, grant.ErrRevoked) {
			t.Errorf("a revoked issuer: %v", err)
		}
		if _, err := f.Create(grant.Credential{Name: "alone", Identities: []string{"agent:x"}}); err != nil && !errors.Is(err, grant.ErrExists) {
			t.Fatal(err)
		}
	}
}

// TestIssue_RefusedCredentialIsNotStored covers a credential that exceeds its issuer's own,
// and one more than an issuer may issue.
func TestIssue_RefusedCredentialIsNotStored(t *testing.T) {
	f := issuing(t)
	list := f.List()
	root := &list[slices.IndexFunc(list, func(c grant.Credential) bool { return c.Name == "root" })]
	before := shape(f)
	if _, err := f.Issue(root, grant.Credential{Name: "wide", Identities: []string{"cli:me"}}); err == nil || !strings.Contains(err.Error(), "lies outside") {
		t.Errorf("a wider one: %v", err)
	}
	many := slices.Repeat([]string{"agent:" + strings.Repeat("x", 94)}, 2<<20/104)
	if _, err := f.Issue(root, grant.Credential{Name: "large", Identities: many}); !errors.Is(err, grant.ErrFull) {
		t.Errorf("one past the bound: %v", err)
	}
	if shape(f) != before {
		t.Errorf("the file has %s", shape(f))
	}
}

// TestFile_DropsCredentialsWithoutIssuer removes an issuer from the file, and lets issuers form a
// cycle.
func TestFile_DropsCredentialsWithoutIssuer(t *testing.T) {
	f := issuing(t)
	path := filepath.Join(t.TempDir(), grant.FileName)
	var text strings.Builder
	for _, c := range f.List() {
		if c.Name != "a" {
			text.WriteString("[[credential]]\nname = \"" + c.Name + "\"\nissuer = \"" + c.Issuer + "\"\nsha256 = \"" + c.SHA256 + "\"\n")
		}
	}
	text.WriteString("[[credential]]\nname = \"round\"\nissuer = \"round\"\nsha256 = \"" + grant.Hash("round") + "\"\n")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	f = grant.NewFile(path)
	if err := f.Reload(); err != nil || shape(f) != "alone root >b " {
		t.Errorf("%v, %s", err, shape(f))
	}
	if _, ok := f.Lookup("round"); ok {
		t.Error("one that issued itself is in force")
	}
}
