package grant

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func issuedBy(issuer, name string, patterns ...string) Credential {
	return Credential{Name: name, Issuer: issuer, SHA256: Hash(name), Identities: []string{"agent:x"}, Subscribe: patterns, Issue: []string{"agent:*"}}
}

// TestIssue_IsBounded uses issuers at their bound and one past it, by the count of all
// below the operator's credential and by their size. Others may still issue.
func TestIssue_IsBounded(t *testing.T) {
	list := []Credential{issuedBy("", "spawner"), issuedBy("", "other"), issuedBy("spawner", "middle")}
	for i := range maxIssued - 2 {
		list = append(list, issuedBy("middle", fmt.Sprint("c", i)))
	}
	last, one := issuedBy("middle", "last"), issuedBy("spawner", "one")
	if err := checkIssuedCount(list, &last); err != nil {
		t.Errorf("the last one: %v", err)
	}
	list = append(list, last)
	for what, c := range map[string]Credential{"by the issuer": one, "by what it issued": issuedBy("middle", "two")} {
		if err := checkIssuedCount(list, &c); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "hubbub token list") {
			t.Errorf("one past the bound, %s: %v", what, err)
		}
	}
	if c := issuedBy("other", "three"); checkIssuedCount(list, &c) != nil {
		t.Error("another issuer may not issue any more")
	}

	list = []Credential{issuedBy("", "spawner")}
	full := issuedBy("spawner", "full", "")
	full.Subscribe[0] = strings.Repeat("x", maxIssuedSize-full.size())
	if err := checkIssuedCount(list, &full); err != nil {
		t.Errorf("one of as many bytes as there may be: %v", err)
	}
	full.Subscribe[0] += "x"
	if err := checkIssuedCount(list, &full); !errors.Is(err, ErrFull) {
		t.Errorf("one byte more: %v", err)
	}
	wide := issuedBy("spawner", "wide", strings.Repeat("x", maxIssuedSize/2))
	list = []Credential{issuedBy("", "spawner"), wide}
	if err := checkIssuedCount(list, &one); err != nil {
		t.Errorf("beside a wide one: %v", err)
	}
	if err := checkIssuedCount(list, &wide); !errors.Is(err, ErrFull) {
		t.Errorf("two wide ones: %v", err)
	}
}

// TestFile_IsNeverWrittenTooLarge checks that the file never exceeds the size
// that the bus reads.
func TestFile_IsNeverWrittenTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	f := NewFile(path)
	if _, err := f.Create(Credential{Name: "first", Identities: []string{"cli:me"}}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	many := make([]string, maxFile/100)
	for i := range many {
		many[i] = strings.Repeat("x", 120)
	}
	if _, err := f.Create(Credential{Name: "wide", Identities: many}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a file that is too large: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file has changed: %v", err)
	}
	for over, right := range []bool{true, false} {
		c := Credential{Name: "x", SHA256: strings.Repeat("x", maxFile-len(oneByteHash(t))+1+over)}
		if err := write(path, []Credential{c}); (err == nil) != right {
			t.Errorf("%d bytes too large: %v", over, err)
		}
	}
}

// oneByteHash returns the file of a credential whose hash is one byte long.
func oneByteHash(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	if err := write(path, []Credential{{Name: "x", SHA256: "x"}}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestIssue_BoundsChainOfIssuers bounds the chain because each message is charged to every
// issuer above its sender.
func TestIssue_BoundsChainOfIssuers(t *testing.T) {
	list := []Credential{issuedBy("", "c0")}
	for i := range maxDepth {
		c := issuedBy(fmt.Sprint("c", i), fmt.Sprint("c", i+1))
		if err := checkIssuedCount(list, &c); err != nil {
			t.Fatalf("depth %d: %v", i+1, err)
		}
		list = append(list, c)
	}
	if c := issuedBy(fmt.Sprint("c", maxDepth), "deep"); !errors.Is(checkIssuedCount(list, &c), ErrFull) {
		t.Error("one credential below the other without end")
	}
}
