package bus_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/bus/grant"
	"hubbub/bus/report"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/wire"
)

// credentialed starts a bus with credentials and returns their tokens by name.
func credentialed(t *testing.T, list ...grant.Credential) (*bustest.Bus, *grant.File, map[string]string) {
	t.Helper()
	file := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
	tokens := map[string]string{}
	for _, c := range list {
		token, err := file.Create(c)
		if err != nil {
			t.Fatal(err)
		}
		tokens[c.Name] = token
	}
	return bustest.Start(t, &bus.Options{Credentials: file}), file, tokens
}

var (
	bridge  = grant.Credential{Name: "tg", Identities: []string{"tg:*"}, Subscribe: []string{"tg:*"}, Publish: []string{"agent:*", "system:*"}}
	spawner = grant.Credential{
		Name: "system", Identities: []string{"agent:system"}, Subscribe: []string{"system:*"},
		Publish: []string{"tg:*", "system:*", "collab:*"}, Issue: []string{"agent:*"},
	}
)

func join(t *testing.T, b *bustest.Bus, token, id string, patterns ...string) *raw {
	t.Helper()
	s, err := wire.Dial(t.Context(), b.URL(), &wire.DialOptions{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return open(t, s, id, patterns...)
}

func TestUpgrade_NeedsToken(t *testing.T) {
	b, _, tokens := credentialed(t, bridge)
	for _, token := range []string{"", "wrong", tokens["tg"] + "x"} {
		_, err := wire.Dial(t.Context(), b.URL(), &wire.DialOptions{Token: token})
		var status *wire.StatusError
		if !errors.As(err, &status) || status.Code != http.StatusUnauthorized {
			t.Errorf("token %q: %v; want 401", token, err)
		}
	}
	join(t, b, tokens["tg"], "tg:bot", "tg:*")
}

func TestCredentials_GrantIdentityTopicAndPattern(t *testing.T) {
	b, _, tokens := credentialed(t, bridge, spawner)
	p := join(t, b, tokens["tg"], "tg:bot", "tg:*", "tg:42", "tg:?")
	refused := func(what, method, params string) {
		t.Helper()
		if m := p.request(method, params); !strings.Contains(string(m.Error), "-32602") {
			t.Errorf("%s: %s %s; want -32602", what, m.Result, m.Error)
		}
	}
	refused("a pattern outside the grant", "subscribe", `{"topic":"agent:*"}`)
	refused("a wider pattern", "subscribe", `{"topic":"*"}`)
	refused("a topic outside the grant", "sendMessage", `{"topic":"tg:1","payload":`+tgPayload("m1", "tg:42")+`}`)
	refused("an identity outside the grant", "sendMessage", `{"topic":"agent:x","payload":`+tgPayload("m2", "chorus:1")+`}`)
	if m := p.request("sendMessage", `{"topic":"agent:x","payload":`+tgPayload("m3", "tg:42")+`}`); m.Error != nil {
		t.Errorf("a chat of the bridge: %s", m.Error)
	}
	s, err := wire.Dial(t.Context(), b.URL(), &wire.DialOptions{Token: tokens["tg"]})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(wire.CloseNormal, "")
	other := &raw{t, s}
	if m := other.request("initialize", `{"clientId":"agent:system"}`); !strings.Contains(string(m.Error), "-32602") {
		t.Errorf("an identity of another: %s %s; want -32602", m.Result, m.Error)
	}
}

// TestAddressee_IsNotPeerThatSpeaksForAll uses an operator's peer that receives
// everything, with a credential that grants every identity, before the bridge is
// connected.
func TestAddressee_IsNotPeerThatSpeaksForAll(t *testing.T) {
	all := []string{"*"}
	b, _, tokens := credentialed(t, bridge, grant.Credential{Name: "admin", Identities: all, Subscribe: all, Publish: all})
	answerAll(join(t, b, tokens["admin"], "cli:audit", "*"))
	sender := join(t, b, tokens["admin"], "agent:a")
	send := func(want string) {
		t.Helper()
		m := sender.request("sendMessage", `{"topic":"tg:42","payload":`+payload("m", "agent:a", "x")+`}`)
		if !strings.Contains(string(m.Result), `"addressee":"`+want+`"`) {
			t.Errorf("%s %s; want the addressee %s", m.Result, m.Error, want)
		}
	}
	send("absent")
	answerAll(join(t, b, tokens["tg"], "tg:bot", "tg:*"))
	send("ok")
}

// answerAll makes a peer process every delivery, until its connection ends.
func answerAll(p *raw) {
	go func() {
		for {
			m, err := p.read()
			if err != nil {
				return
			}
			p.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"processed":true}}`)
		}
	}()
}

func tgPayload(id, from string) string {
	return strings.Replace(payload(id, from, "x"), "agent_event", "tg_message", 1)
}

func TestRevoke_EndsTokenAndSessions(t *testing.T) {
	b, file, tokens := credentialed(t, bridge, spawner)
	live := join(t, b, tokens["tg"], "tg:bot", "tg:*")
	kept := join(t, b, tokens["system"], "agent:system", "system:*")
	if _, err := file.Revoke("tg", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := live.read(); wire.CloseCode(err) != wire.ClosePolicy {
		t.Errorf("the live session: %v; want close code 1008", err)
	}
	if _, err := wire.Dial(t.Context(), b.URL(), &wire.DialOptions{Token: tokens["tg"]}); err == nil {
		t.Error("the revoked token still opens a session")
	}
	if m := kept.request("ping", "{}"); m.Error != nil {
		t.Errorf("another credential's session: %s", m.Error)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := peer.New("tg:bot", &peer.Options{Buses: []string{b.URL()}, Token: tokens["tg"]})
	if err := p.Run(ctx); !errors.Is(err, peer.ErrUnauthorized) {
		t.Errorf("a peer with it ends with %v; want ErrUnauthorized", err)
	}
}

// TestRevoke_EndsSessionsOfIssuedCredentials checks that everything issued with a leaked token
// ends with it on a running bus, at any depth.
func TestRevoke_EndsSessionsOfIssuedCredentials(t *testing.T) {
	b, file, tokens := credentialed(t, bridge, spawner)
	issue := func(by, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http"+strings.TrimPrefix(b.URL(), "ws")+"/credentials", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+by)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var issued struct{ Token, Error string }
		if err := json.NewDecoder(answer.Body).Decode(&issued); err != nil || issued.Token == "" {
			t.Fatalf("%s: %s, %v", body, issued.Error, err)
		}
		return issued.Token
	}
	child := issue(tokens["system"], `{"name":"child","issuer":"tg","identities":["agent:c"],"issue":["agent:c*"],"subscribe":[],"publish":[]}`)
	deep := issue(child, `{"name":"deep","identities":["agent:c2"],"subscribe":[],"publish":[]}`)
	sessions := []*raw{join(t, b, tokens["system"], "agent:system"), join(t, b, child, "agent:c"), join(t, b, deep, "agent:c2")}
	kept := join(t, b, tokens["tg"], "tg:bot")
	if names, err := file.Revoke("system", nil); err != nil || !slices.Equal(names, []string{"system", "child", "deep"}) {
		t.Fatalf("revoked %q, %v", names, err)
	}
	for i, s := range sessions {
		if _, err := s.read(); wire.CloseCode(err) != wire.ClosePolicy {
			t.Errorf("session %d: %v; want close code 1008", i, err)
		}
	}
	for _, token := range []string{child, deep} {
		if _, err := wire.Dial(t.Context(), b.URL(), &wire.DialOptions{Token: token}); err == nil {
			t.Error("what the revoked token issued still opens a session")
		}
	}
	if m := kept.request("ping", "{}"); m.Error != nil {
		t.Errorf("another credential's session: %s", m.Error)
	}
}

func TestCredentials_NarrowedGrantEndsSubscriptions(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, grant.FileName)
	token := grant.NewToken()
	write := func(subscribe string) {
		text := "[[credential]]\nname = \"ear\"\nsha256 = \"" + grant.Hash(token) + "\"\nidentities = [\"cli:*\"]\nsubscribe = " + subscribe + "\npublish = []\n"
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(`["tg:*", "agent:*"]`)
	b := bustest.Start(t, &bus.Options{Credentials: grant.NewFile(path)})
	join(t, b, token, "cli:ear", "tg:*", "agent:x")
	write(`["tg:*"]`)
	waitFor(t, func() bool { return len(b.Server().Peers()[0].Subscriptions) == 1 })
}

func TestBus_StaysClosedWhenFileIsBrokenOrDeleted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, grant.FileName)
	file := grant.NewFile(path)
	token, err := file.Create(bridge)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("[[credential]\nbroken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := file.Reload(); err == nil || !strings.Contains(err.Error(), "last valid state") {
		t.Errorf("Reload of a broken file: %v; want it to say that the last valid state stays", err)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := file.Reload(); err == nil || !strings.Contains(err.Error(), "last valid state") {
		t.Errorf("Reload of an emptied file: %v; want it to say that the last valid state stays", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := file.Reload(); err == nil {
		t.Error("Reload of a deleted file says nothing")
	}
	if _, ok := file.Lookup(token); !ok || file.Open() {
		t.Error("the last valid state is no longer in force")
	}
}

func (r *raw) silent() { r.t.Helper(); r.request("ping", "{}") }

func call(t *testing.T, b *bustest.Bus, token, method, path, body string) (int, map[string]any) {
	t.Helper()
	status, raw := ask(t, b, token, method, path, body)
	var answer map[string]any
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &answer); err != nil {
			t.Fatalf("%s %s: %q is not JSON", method, path, raw)
		}
	}
	return status, answer
}

// ask is call for any answer.
func ask(t *testing.T, b *bustest.Bus, token, method, path, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, strings.Replace(b.URL(), "ws", "http", 1)+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, raw
}

// TestPeers_AreListedToAllowedClients uses agents of two chats, who do not learn
// of each other or of the other chat.
func TestPeers_AreListedToAllowedClients(t *testing.T) {
	agent := func(name, chat string) grant.Credential {
		return grant.Credential{Name: name, Identities: []string{"agent:" + name}, Subscribe: []string{"agent:" + name}, Publish: []string{chat, "system:*"}}
	}
	operator := grant.Credential{Name: "op", Identities: []string{"cli:*"}, Subscribe: []string{"*"}}
	b, _, tokens := credentialed(t, operator, bridge, agent("x", "tg:1"), agent("y", "tg:2"))
	join(t, b, tokens["tg"], "tg:1")
	join(t, b, tokens["tg"], "tg:2")
	join(t, b, tokens["x"], "agent:x")
	join(t, b, tokens["y"], "agent:y")
	for name, want := range map[string]string{
		"x": "agent:x tg:1", "y": "agent:y tg:2", "tg": "agent:x agent:y tg:1 tg:2", "op": "agent:x agent:y tg:1 tg:2",
	} {
		status, raw := ask(t, b, tokens[name], "GET", "/peers", "")
		var list []report.Peer
		if err := json.Unmarshal(raw, &list); err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", name, status, raw, err)
		}
		var seen []string
		for _, p := range list {
			seen = append(seen, p.ID)
		}
		if got := strings.Join(seen, " "); got != want {
			t.Errorf("%s sees %q; want %q", name, got, want)
		}
	}
}

func TestCredentials_SpawnerIssuesAndRevokesNarrowerOnes(t *testing.T) {
	b, _, tokens := credentialed(t, bridge, spawner)
	agent := `{"name":"agent:x","identities":["agent:x"],"subscribe":["agent:x"],"publish":["tg:42","system:*","collab:*"]}`
	status, answer := call(t, b, tokens["system"], "POST", "/credentials", agent)
	if status != http.StatusCreated || answer["token"] == "" {
		t.Fatalf("issuing: %d %v; want 201 and a token", status, answer)
	}
	token, ok := answer["token"].(string)
	if !ok {
		t.Fatal("no token")
	}
	session := join(t, b, token, "agent:x", "agent:x")
	if status, who := call(t, b, token, "GET", "/whoami", ""); status != 200 || who["name"] != "agent:x" {
		t.Errorf("whoami: %d %v", status, who)
	}
	const address = "http://127.0.0.1:7893/tools/a/b"
	pass := protocol.NewDerivedToken(token, address)
	if status, who := call(t, b, pass, "GET", "/whoami?for="+address, ""); status != 200 || who["name"] != "agent:x" {
		t.Errorf("whoami for a pass: %d %v", status, who)
	}
	for _, path := range []string{"/whoami", "/whoami?for=" + address + "2", "/peers?for=" + address, "/metrics?for=" + address} {
		if status, _ := call(t, b, pass, "GET", path, ""); status != http.StatusUnauthorized {
			t.Errorf("a pass opens %s: %d", path, status)
		}
	}
	if s, err := wire.Dial(t.Context(), b.URL()+"/?for="+address, &wire.DialOptions{Token: pass}); err == nil {
		s.Close(wire.CloseNormal, "")
		t.Error("a pass opens a session")
	}
	for what, body := range map[string]string{
		"another family":      `{"name":"y","identities":["tg:1"],"subscribe":[],"publish":[]}`,
		"too wide a pattern":  `{"name":"y","identities":["agent:y"],"subscribe":["*"],"publish":[]}`,
		"too wide a topic":    `{"name":"y","identities":["agent:y"],"subscribe":["agent:y"],"publish":["*"]}`,
		"no identity":         `{"name":"y","identities":[],"subscribe":[],"publish":[]}`,
		"wider issue rights":  `{"name":"y","identities":["agent:y"],"subscribe":[],"publish":[],"issue":["*"]}`,
		"a name that escapes": `{"name":"../y","identities":["agent:y"],"subscribe":[],"publish":[]}`,
		"a repeated member":   `{"name":"y","identities":["agent:y"],"subscribe":[],"publish":[],"name":"z"}`,
		"an escaped repeat":   `{"name":"y","identities":["agent:y"],"subscribe":[],"publish":[],"n\u0061me":"z"}`,
		"another case":        `{"Name":"y","identities":["agent:y"],"subscribe":[],"publish":[]}`,
		"a surrogate":         `{"name":"y","identities":["agent:y\ud800"],"subscribe":[],"publish":[]}`,
		"a zero character":    `{"name":"y","identities":["agent:y\u0000"],"subscribe":[],"publish":[]}`,
		"overlong UTF-8":      "{\"name\":\"y\",\"identities\":[\"agent:y\xc0\xaf\"],\"subscribe\":[],\"publish\":[]}",
		"a number as name":    `{"name":7,"identities":["agent:y"],"subscribe":[],"publish":[]}`,
		"two objects":         `{"name":"y","identities":["agent:y"],"subscribe":[],"publish":[]}{}`,
		"more members behind": `{"name":"y","identities":["agent:y"],"subscribe":[],"publish":[]},"id":1`,
	} {
		if status, _ := call(t, b, tokens["system"], "POST", "/credentials", body); status < 400 || status >= 500 {
			t.Errorf("%s: %d; want a refusal", what, status)
		}
	}
	if status, _ := call(t, b, tokens["system"], "POST", "/credentials", agent); status != http.StatusConflict {
		t.Errorf("the same name twice: %d; want 409", status)
	}
	if status, _ := call(t, b, tokens["tg"], "POST", "/credentials", strings.Replace(agent, `"agent:x"`, `"z"`, 1)); status != http.StatusForbidden {
		t.Errorf("a credential without issue rights issues: %d; want 403", status)
	}
	if status, _ := call(t, b, tokens["system"], "DELETE", "/credentials/tg", ""); status != http.StatusForbidden {
		t.Errorf("revoking what one may not issue: %d; want 403", status)
	}
	if status, _ := call(t, b, tokens["system"], "DELETE", "/credentials/agent:x", ""); status != http.StatusNoContent {
		t.Errorf("revoking: %d; want 204", status)
	}
	if _, err := session.read(); wire.CloseCode(err) != wire.ClosePolicy {
		t.Errorf("the session of a revoked credential: %v; want close code 1008", err)
	}
}

func TestGuard_RefusesOtherSites(t *testing.T) {
	file := grant.NewFile(filepath.Join(t.TempDir(), "none"))
	b := bustest.Start(t, &bus.Options{Credentials: file, AllowOrigins: []string{"https://ops.example.com"}})
	host := strings.TrimPrefix(b.URL(), "ws://")
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{host, "", 200}, {"localhost:1", "", 200}, {"[::1]:7892", "", 200}, {"evil.example", "", 403}, {"127.0.0.1.evil.example", "", 403},
		{host, "http://" + host, 200}, {host, "https://" + host, 403}, {host, "http://evil.example", 403}, {host, "null", 403},
		{host, "https://ops.example.com", 200}, {host, "http://ops.example.com", 403}, {host, "https://ops.example.com.evil.example", 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+host+"/whoami", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("Host %q, Origin %q: %d; want %d", c.host, c.origin, resp.StatusCode, c.want)
		}
	}
}

func TestServe_RefusesOtherMachinesWithoutCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		credentials, plaintext, tls bool
		want                        string
	}{
		"no credentials":            {want: "without credentials"},
		"no credentials but TLS":    {tls: true, want: "without credentials"},
		"credentials, no TLS":       {credentials: true, want: "without TLS"},
		"credentials and plaintext": {credentials: true, plaintext: true},
		"credentials and TLS":       {credentials: true, tls: true},
	} {
		t.Run(name, func(t *testing.T) {
			file := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
			var token string
			if c.credentials {
				var err error
				if token, err = file.Create(bridge); err != nil {
					t.Fatal(err)
				}
			}
			o := &bus.Options{Credentials: file, Plaintext: c.plaintext, Listen: "0.0.0.0:0"}
			if c.tls {
				o.TLS = certificate(t)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ready := make(chan net.Addr, 1)
			o.OnReady = func(a net.Addr) { ready <- a }
			ended := make(chan error, 1)
			go func() { ended <- bus.New(nil, o).Run(ctx) }()
			select {
			case err := <-ended:
				if c.want == "" || err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("Run = %v; want %q", err, c.want)
				}
			case addr := <-ready:
				if c.want != "" {
					t.Error("it listens")
				}
				_, port, err := net.SplitHostPort(addr.String())
				if err != nil {
					t.Fatal(err)
				}
				scheme := "ws"
				if c.tls {
					scheme = "wss"
				}
				s, err := wire.Dial(ctx, scheme+"://127.0.0.1:"+port, &wire.DialOptions{Token: token, TLS: &tls.Config{InsecureSkipVerify: true}})
				if err != nil {
					t.Fatal(err)
				}
				p := open(t, s, "tg:bot", "tg:*")
				p.silent()
				s.Close(wire.CloseNormal, "")
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func certificate(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bus"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"http/1.1"}}
}

func TestUpgrade_EchoesBearerSubprotocol(t *testing.T) {
	b, _, tokens := credentialed(t, bridge)
	req, err := http.NewRequestWithContext(t.Context(), "GET", strings.Replace(b.URL(), "ws", "http", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	offered := protocol.BearerSubprotocol + tokens["tg"]
	for k, v := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "other, " + offered,
	} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Sec-WebSocket-Protocol"); resp.StatusCode != http.StatusSwitchingProtocols || got != offered {
		t.Errorf("%d, subprotocol %q; want 101 and the offered one", resp.StatusCode, got)
	}
}

// A slowClient is the connection of a client that has not read earlier data: an answer
// waits until it reads, as with the HTTP server of net/http.
type slowClient struct {
	net.Conn
	header http.Header
}

func (c *slowClient) Header() http.Header { return c.header }

func (c *slowClient) WriteHeader(status int) {
	fmt.Fprintf(c.Conn, "HTTP/1.1 %d X\r\n", status) //nolint:errcheck // the test reads it or not
	c.header.Write(c.Conn)                           //nolint:errcheck // the same
	io.WriteString(c.Conn, "\r\n")                   //nolint:errcheck // the same
}

func (c *slowClient) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return c.Conn, bufio.NewReadWriter(bufio.NewReader(c.Conn), bufio.NewWriter(c.Conn)), nil
}

// TestUpgrade_StalledOneBlocksNoPeerAndEndsWithItsToken uses clients that request upgrades
// and do not read the answers. Others can connect nevertheless, and a client that reads
// again after its token was revoked gets no session.
func TestUpgrade_StalledOneBlocksNoPeerAndEndsWithItsToken(t *testing.T) {
	b, file, tokens := credentialed(t, bridge, spawner)
	var stalled []net.Conn
	for range 2 * runtime.GOMAXPROCS(0) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		stalled = append(stalled, ours)
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
			"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Authorization": "Bearer " + tokens["tg"],
		} {
			r.Header.Set(name, value)
		}
		go b.Server().Handler().ServeHTTP(&slowClient{theirs, http.Header{}}, r)
	}
	one := make([]byte, 1)
	for _, s := range stalled { // each is answered, and no more than a byte of it is read
		if _, err := io.ReadFull(s, one); err != nil {
			t.Fatal(err)
		}
	}
	live := join(t, b, tokens["tg"], "tg:bot", "tg:*")
	if _, err := file.Revoke("tg", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := live.read(); wire.CloseCode(err) != wire.ClosePolicy {
		t.Fatalf("the live session: %v; want close code 1008", err)
	}
	for _, s := range stalled {
		in := bufio.NewReader(s)
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		frame := make([]byte, 4)
		if _, err := io.ReadFull(in, frame); err != nil || frame[0] != 0x88 || int(frame[2])<<8|int(frame[3]) != wire.ClosePolicy {
			t.Errorf("the stalled upgrade goes on with % x, %v; want a close frame with 1008", frame, err)
		}
	}
}
