package grant_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/bus/grant"
	"hubbub/protocol"
)

var bridge = grant.Credential{Name: "tg", Identities: []string{"tg:*"}, Subscribe: []string{"tg:*"}, Publish: []string{"agent:*"}}

func TestPut_SetsCredentialOfExistingToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), grant.FileName)
	f := grant.NewFile(path)
	if err := f.Reload(); err != nil {
		t.Fatal(err)
	}
	c := bridge
	c.SHA256 = grant.Hash("a token of somebody else's making")
	if err := f.Put(c); err != nil {
		t.Fatal(err)
	}
	if got, ok := f.Lookup("a token of somebody else's making"); !ok || got.Name != "tg" {
		t.Fatalf("the token is %v, %t", got, ok)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	version := f.Version()
	if err := f.Put(c); err != nil || f.Version() != version {
		t.Errorf("putting it again changed the file: %v", err)
	}
	c.SHA256 = grant.Hash("another token")
	if err := f.Put(c); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Lookup("a token of somebody else's making"); ok {
		t.Error("the old token is still good")
	}
	if len(f.List()) != 1 {
		t.Errorf("%d credentials", len(f.List()))
	}
	version = f.Version()
	c.Publish = []string{"agent:one"}
	if err := f.Put(c); err != nil || f.Version() != version+1 || !slices.Equal(f.List()[0].Publish, c.Publish) {
		t.Errorf("the same token with other grants: %v, %v", err, f.List())
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) == string(before) || strings.Contains(string(after), "another token") {
		t.Errorf("the file is %s, %v", after, err)
	}
	c.Identities = []string{"[bad"}
	if err := f.Put(c); err == nil {
		t.Error("a bad pattern was accepted")
	}
}

func TestDerivedToken_OpensOnlyItsAddress(t *testing.T) {
	f := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
	token, err := f.Create(bridge)
	if err != nil {
		t.Fatal(err)
	}
	other := bridge
	other.Name = "other"
	another, err := f.Create(other)
	if err != nil {
		t.Fatal(err)
	}
	pass := protocol.NewDerivedTokenOf(grant.Hash(token), "http://a")
	foreign := protocol.NewDerivedTokenOf(grant.Hash(another), "http://a")
	name := protocol.DerivedTokenName(pass)
	for what, c := range map[string]struct {
		pass, address string
		want          string
	}{
		"as it is":                    {pass, "http://a", bridge.Name},
		"of another credential":       {foreign, "http://a", other.Name},
		"elsewhere":                   {pass, "http://b", ""},
		"with the proof of another":   {name + foreign[len(name):], "http://a", ""},
		"of a token that nobody has":  {protocol.NewDerivedTokenOf(grant.Hash("nobody"), "http://a"), "http://a", ""},
		"a token":                     {token, "http://a", ""},
		"nothing":                     {"", "http://a", ""},
		"its name, and nothing after": {name, "http://a", ""},
	} {
		got, ok := f.LookupDerived(c.pass, c.address)
		if ok != (c.want != "") || ok && got.Name != c.want {
			t.Errorf("%s: %v, %t; want %q", what, got, ok, c.want)
		}
	}
	if _, err := f.Revoke(bridge.Name, nil); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.LookupDerived(pass, "http://a"); ok {
		t.Error("a revoked one opens still")
	}
}

// TestFile_IsChangedByManyPrograms checks that each program waits for the others, and
// that none removes what another has written.
func TestFile_IsChangedByManyPrograms(t *testing.T) {
	path := filepath.Join(t.TempDir(), grant.FileName)
	var wg sync.WaitGroup
	for i := range 8 {
		f := grant.NewFile(path)
		wg.Go(func() {
			for k := range 4 {
				if _, err := f.Create(grant.Credential{Name: fmt.Sprint(i, ".", k), Identities: []string{"cli:me"}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	f := grant.NewFile(path)
	if err := f.Reload(); err != nil || len(f.List()) != 32 {
		t.Errorf("%d credentials, %v", len(f.List()), err)
	}
}

// TestFile_RefusesLargeFile checks that a large file is not even parsed.
func TestFile_RefusesLargeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), grant.FileName)
	for size, want := range map[int64]string{16 << 20: "NULL bytes", 16<<20 + 1: "larger than 16777216 bytes"} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		if err := grant.NewFile(path).Reload(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v; want %q", size, err, want)
		}
	}
}

// TestFile_FailsWithoutFolder uses a name so long that the temporary copy
// cannot be named.
func TestFile_FailsWithoutFolder(t *testing.T) {
	f := grant.NewFile(filepath.Join(t.TempDir(), strings.Repeat("x", 250)))
	if _, err := f.Create(bridge); err == nil || !strings.Contains(err.Error(), "writing the credentials file") || !f.Open() {
		t.Errorf("%v", err)
	}
}

func TestFile_RefusesDuplicateNames(t *testing.T) {
	f := grant.NewFile(filepath.Join(t.TempDir(), "new", grant.FileName))
	if _, err := f.Create(bridge); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Create(bridge); !errors.Is(err, grant.ErrExists) {
		t.Errorf("a second credential of the name: %v", err)
	}
	if _, err := f.Revoke("nobody", nil); !errors.Is(err, grant.ErrUnknown) {
		t.Errorf("revoking what is not there: %v", err)
	}
	refused := errors.New("not yours")
	if _, err := f.Revoke("tg", func(*grant.Credential) error { return refused }); !errors.Is(err, refused) || len(f.List()) != 1 {
		t.Errorf("a refused revocation: %v, %v", err, f.List())
	}
	if _, err := f.Revoke("tg", nil); err != nil || len(f.List()) != 0 {
		t.Errorf("%v, %v", err, f.List())
	}
}

// TestFile_StaysInForceWhenBroken replaces valid credentials with invalid files:
// the last valid state stays.
func TestFile_StaysInForceWhenBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), grant.FileName)
	f := grant.NewFile(path)
	token, err := f.Create(bridge)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "# Credentials of the bus: which identities, subscriptions and topics each token grants.\n") {
		t.Errorf("the file is %.70s, %v", text, err)
	}
	for name, text := range map[string]string{
		"no TOML":      "[[credential",
		"unknown key":  "[[credential]]\nname = 'x'\nadmin = true\n",
		"twice a name": strings.Repeat("[[credential]]\nname = 'x'\nsha256 = '"+grant.Hash("x")+"'\nidentities = ['tg:*']\n", 2),
		"bad hash":     "[[credential]]\nname = 'x'\nsha256 = 'abc'\nidentities = ['tg:*']\n",
		"too large":    strings.Repeat("# nothing\n", 2<<20),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Reload(); err == nil {
			t.Errorf("%s: it was accepted", name)
		}
		if _, ok := f.Lookup(token); !ok || f.Open() {
			t.Errorf("%s: the last valid state is gone (open: %t)", name, f.Open())
		}
	}
	if err := grant.NewFile(path).Reload(); err == nil || strings.Contains(err.Error(), "last valid state") {
		t.Errorf("the first look at a broken file: %v; want no word of a good state, since there was none", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_ = f.Reload() // it may complain
	if _, ok := f.Lookup(token); !ok || f.Open() {
		t.Errorf("deleting the file opened the bus")
	}
}

// TestFile_KeepsStateWhenWriteFails uses a folder that is a file, a lock and a
// file that are folders, and a broken file.
func TestFile_KeepsStateWhenWriteFails(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"the folder is a file": func(dir string) error {
			return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600))
		},
		"the lock is a folder": func(dir string) error { return os.Mkdir(filepath.Join(dir, grant.FileName+".lock"), 0o700) },
		"the file is a folder": func(dir string) error { return os.Mkdir(filepath.Join(dir, grant.FileName), 0o700) },
		"the file is broken":   func(dir string) error { return os.WriteFile(filepath.Join(dir, grant.FileName), []byte("[["), 0o600) },
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		f := grant.NewFile(filepath.Join(dir, grant.FileName))
		token, err := f.Create(bridge)
		if err == nil {
			t.Errorf("%s: a credential was created", name)
		}
		if _, ok := f.Lookup(token); ok || f.Version() != 0 {
			t.Errorf("%s: its token counts", name)
		}
		left, err := filepath.Glob(filepath.Join(dir, ".credentials*"))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: it left %v, %v", name, left, err)
		}
	}
}

// TestFile_ReportsEachErrorOnce checks that a bus that checks the file five
// times a second does not fill its log.
func TestFile_ReportsEachErrorOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), grant.FileName)
	f := grant.NewFile(path)
	if _, err := f.Create(bridge); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(); err == nil || !strings.Contains(err.Error(), "it is empty") {
		t.Errorf("an emptied file: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(); err == nil || !strings.Contains(err.Error(), "was deleted") {
		t.Errorf("a deleted file: %v", err)
	}
	if err := f.Reload(); err != nil {
		t.Errorf("the same fault again: %v", err)
	}
	if f.Open() || f.Version() != 1 {
		t.Errorf("open: %t, version %d", f.Open(), f.Version())
	}
}

// TestFile_ChecksTokensDuringChanges looks tokens up in the middle of a
// change, which waits for the disk and for other processes.
func TestFile_ChecksTokensDuringChanges(t *testing.T) {
	f := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
	token, err := f.Create(bridge)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Revoke(bridge.Name, func(*grant.Credential) error {
		if _, ok := f.Lookup(token); !ok || f.Reload() != nil || f.Open() {
			t.Error("the credential is not in force while it is being revoked")
		}
		return nil
	})
	if _, ok := f.Lookup(token); err != nil || ok {
		t.Errorf("a revocation: %v; the token is good: %t", err, ok)
	}
}

// TestFile_ReportsFileThatCannotBeExamined checks that an operator who revokes a token
// learns that the bus does not see it.
func TestFile_ReportsFileThatCannotBeExamined(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	f := grant.NewFile(filepath.Join(dir, grant.FileName))
	token, err := f.Create(bridge)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(); err == nil || !strings.Contains(err.Error(), "cannot be examined") {
		t.Errorf("a folder that is a file: %v", err)
	}
	if _, ok := f.Lookup(token); !ok || f.Open() {
		t.Errorf("the last valid state is gone (open: %t)", f.Open())
	}
}
