package bus_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/bus/grant"
	"hubbub/protocol/wire"
)

// A family is a credential with bounds, and what it has issued: a child, and a grandchild
// that the child has issued.
type family struct {
	t                         *testing.T
	bus                       *bustest.Bus
	file                      *grant.File
	serving                   sync.WaitGroup
	issuer, child, grandchild *credentialClients
}

func inFamily(t *testing.T, bounds grant.Limits, test func(f *family)) {
	synctest.Test(t, func(t *testing.T) {
		f := &family{t: t, file: grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))}
		for _, name := range []string{"issuer", "other"} {
			c := bounded(name, bounds)
			c.Issue = c.Identities
			if _, err := f.file.Create(c); err != nil {
				t.Fatal(err)
			}
		}
		f.bus = bustest.StartLogged(t, &bus.Options{Credentials: f.file})
		t.Cleanup(f.serving.Wait)
		f.issuer = f.credentialClients("issuer")
		f.child = f.issue(f.issuer, "child")
		f.grandchild = f.issue(f.child, "grandchild")
		test(f)
	})
}

func (f *family) credentialClients(name string) *credentialClients {
	for _, c := range f.file.List() {
		if c.Name == name {
			return &credentialClients{f.t, f.bus, c, &f.serving}
		}
	}
	f.t.Fatalf("no credential %s", name)
	return nil
}

func (f *family) issue(by *credentialClients, name string) *credentialClients {
	f.t.Helper()
	c := bounded(name, grant.Limits{})
	c.Issue = c.Identities
	if _, err := f.file.Issue(&by.credential, c); err != nil {
		f.t.Fatal(err)
	}
	return f.credentialClients(name)
}

// A member is a session of the family.
type member struct {
	*raw
	id string
}

func (n *credentialClients) member(id string) member { return member{n.join(id), id} }

// takes sends a message of about 1,000 bytes and reports whether the bus took it. A
// refusal must be due to the limit of the issuer.
func (m member) takes(flag string) bool {
	m.t.Helper()
	answer := m.request("sendMessage", `{"topic":"news","payload":`+payload("m", m.id, strings.Repeat("x", 850))+`}`)
	if strings.Contains(string(answer.Result), `"accepted":true`) {
		return true
	}
	for _, want := range []string{`"status":"rate"`, `credential \"issuer\", with what it has issued`, flag} {
		if !strings.Contains(string(answer.Result), want) {
			m.t.Fatalf("%s %s; want %s", answer.Result, answer.Error, want)
		}
	}
	return false
}

// TestQuota_IssuedCredentialChargesIssuer checks that issuing, at any depth, and revoking
// and issuing again gain no message and no byte. Other credentials with the same limits
// are not affected.
func TestQuota_IssuedCredentialChargesIssuer(t *testing.T) {
	for flag, at := range map[string]struct {
		bounds      grant.Limits
		least, most int // messages at once
	}{
		"credential-messages":  {grant.Limits{Messages: 20}, 34, 34}, // three sessions take two each
		"credential-bytes":     {grant.Limits{Bytes: 10_000}, 19, 22},
		"credential-log-bytes": {grant.Limits{LogBytes: 50_000}, 30, 50},
	} {
		inFamily(t, at.bounds, func(f *family) {
			members := []member{f.issuer.member("cli:a"), f.child.member("cli:b"), f.grandchild.member("cli:c")}
			taken := 0
			for members[taken%3].takes(flag) {
				taken++
			}
			if taken < at.least || taken > at.most {
				t.Errorf("%s: together they sent %d messages; want %d to %d", flag, taken, at.least, at.most)
			}
			for _, m := range members {
				if m.takes(flag) {
					t.Errorf("%s: %s sends on", flag, m.id)
				}
			}
			if _, err := f.file.Revoke("child", nil); err != nil {
				t.Fatal(err)
			}
			if late := f.issue(f.issuer, "child").connect(); flag == "credential-messages" {
				if _, err := late.read(); wire.CloseCode(err) != wire.CloseTryLater {
					t.Errorf("%s: a child that was issued again connects: %v", flag, err)
				}
			}
			if !f.credentialClients("other").member("cli:other").takes(flag) {
				t.Errorf("%s: another issuer is refused", flag)
			}
		})
	}
}

// TestQuota_IssuedCredentialCountsAgainstIssuer covers connections and subscriptions, which
// are given back when they end.
func TestQuota_IssuedCredentialCountsAgainstIssuer(t *testing.T) {
	inFamily(t, grant.Limits{Sessions: 2, Subscriptions: 2}, func(f *family) {
		child, grandchild := f.child.member("cli:b"), f.grandchild.member("cli:c")
		third := f.issuer.connect()
		third.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"cli:a"}}`)
		if _, err := third.read(); wire.CloseCode(err) != wire.CloseTryLater {
			t.Errorf("a third connection below one issuer: %v; want 1013", err)
		}
		f.credentialClients("other").member("cli:other")

		for i, m := range []member{child, grandchild} {
			if m := m.request("subscribe", `{"topic":"x"}`); m.Error != nil {
				t.Errorf("subscription %d: %s", i, m.Error)
			}
		}
		if m := child.request("subscribe", `{"topic":"y"}`); !strings.Contains(string(m.Error), "may have 2 subscriptions") {
			t.Errorf("a third subscription below one issuer: %s %s", m.Result, m.Error)
		}
		grandchild.stream.Close(wire.CloseNormal, "")
		third.stream.Close(wire.CloseNormal, "")
		synctest.Wait()
		if m := child.request("subscribe", `{"topic":"y"}`); m.Error != nil {
			t.Errorf("after the other one left: %s", m.Error)
		}
		f.issuer.member("cli:a")
	})
}
