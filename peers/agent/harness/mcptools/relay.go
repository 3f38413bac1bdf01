package mcptools

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"hubbub/peers/agent/harness"
	"hubbub/peers/netguard"
)

// relayPath is the path prefix of a Relay; the name of a target follows.
const relayPath = "/relay/"

// maxRelayed is how many targets a Relay keeps.
const maxRelayed = 256

// A Relay connects a program to MCP servers whose headers the program must not see, such
// as a token derived from the agent's bus token. The program gets an address of the agent's own
// server, which forwards requests with those headers. The servers' addresses come from messages,
// so they are dialed through a guard, and redirects are not passed back.
type Relay struct {
	address   Address
	transport http.RoundTripper
	targets   *lru.Cache[string, harness.MCPServer] // by name
}

// NewRelay makes a relay behind the agent's own server at the address own.
func NewRelay(own Address, guard *netguard.Policy) *Relay {
	return &Relay{
		address:   own,
		transport: netguard.NewTransport(guard),
		targets:   harness.NewCache[string, harness.MCPServer](maxRelayed),
	}
}

// Register returns the server to give to a program instead of s. The headers of s may differ
// between calls; those of the last call are used.
func (r *Relay) Register(s harness.MCPServer) harness.MCPServer {
	sum := sha256.Sum256([]byte(s.URL))
	name := hex.EncodeToString(sum[:16])
	r.targets.Add(name, s)
	server := r.address.ForChat(relayPath + name) // this token belongs to no chat and opens no tools
	server.Name, server.URL = s.Name, strings.TrimSuffix(r.address.URL, Path)+relayPath+name
	return server
}

// ServeHTTP forwards a request. The caller has shown the token of this path (see Register) or the
// agent's own token, which is not forwarded. Paths alone can be guessed.
func (r *Relay) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if opens := request.Header.Get(chatHeader); opens != "" && opens != request.URL.Path {
		http.Error(w, "this token is for another server: use the one that came with this address", http.StatusForbidden)
		return
	}
	s, known := r.targets.Get(strings.TrimPrefix(request.URL.Path, relayPath))
	target, err := url.Parse(s.URL)
	if !known || err != nil {
		http.Error(w, "this MCP server is no longer known; it comes again with the next message", http.StatusNotFound)
		return
	}
	request.Body = http.MaxBytesReader(w, request.Body, maxRequest)
	proxy := httputil.ReverseProxy{
		Transport:     r.transport,
		FlushInterval: -1,
		ModifyResponse: func(answer *http.Response) error {
			if answer.StatusCode/100 == 3 {
				return errors.New("it redirects to another address; redirects are not followed")
			}
			return nil
		},
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host = target, target.Host
			p.Out.Header.Del("Authorization")
			p.Out.Header.Del(chatHeader)
			for name, value := range s.Headers {
				p.Out.Header.Set(name, value)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the MCP server did not answer: "+harness.Redact(err.Error()), http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(w, request)
}
