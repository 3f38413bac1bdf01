package chorus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Limits on what a Chorus service POSTs, in bytes.
const (
	maxBody       = 1 << 20
	maxID         = 1024
	maxLabel      = 4096 // a name, a sender
	maxContext    = 64 << 10
	maxMCPServers = 16
	maxHeaders    = 64
)

// A Posted is one message of a Chorus service, checked.
type Posted struct {
	ChannelID ChannelID
	Name      string // of the channel, for people
	Service   string
	Context   string
	MessageID string
	Sender    string
	Content   string
	Callback  string      // URL, secret
	MCP       []MCPServer // secret; empty where the service offers none
}

// An MCPServer is where a service's tools are, with the headers that open it.
type MCPServer struct {
	Name    string            `json:"name,omitempty"` // only in a list
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
}

// ParsePosted reads the body of a POST to an inbox. Names are compared
// exactly, members that the protocol does not have are passed over. The error
// names the member that is wrong and never repeats a value.
func ParsePosted(body []byte, guard *Guard) (*Posted, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not valid UTF-8")
	}
	top, err := object("the body", body)
	if err != nil {
		return nil, err
	}
	var p Posted
	r := reader{}
	channel := r.object(top, "", "channel")
	p.ChannelID = ChannelID(r.required(channel, "channel.", "id", maxID))
	p.Name = r.optional(channel, "channel.", "name", maxLabel)
	p.Service = r.optional(channel, "channel.", "service", maxLabel)
	p.Context = r.optional(channel, "channel.", "context", maxContext)
	message := r.object(top, "", "message")
	p.MessageID = r.required(message, "message.", "id", maxID)
	p.Sender = r.required(message, "message.", "sender", maxLabel)
	p.Content = r.text(message, "message.", "content", maxBody)
	p.Callback = r.required(top, "", "callback", maxURL)
	if r.err != nil {
		return nil, r.err
	}
	if err := guard.CheckURL(p.Callback); err != nil {
		return nil, fmt.Errorf("callback: %w", err)
	}
	if raw, ok := present(top, "mcp"); ok {
		if p.MCP, err = parseMCP(raw, guard); err != nil {
			return nil, err
		}
	}
	return &p, nil
}

// present returns a member that exists and is not null.
func present(members map[string]json.RawMessage, name string) (json.RawMessage, bool) {
	raw, ok := members[name]
	return raw, ok && string(bytes.TrimSpace(raw)) != "null"
}

func object(what string, raw []byte) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, fmt.Errorf("%s must be a JSON object", what)
	}
	return members, nil
}

// A reader takes members out of objects and keeps the first error.
type reader struct{ err error }

func (r *reader) object(from map[string]json.RawMessage, path, name string) map[string]json.RawMessage {
	raw, ok := present(from, name)
	if !ok {
		r.fail("%s%s is missing", path, name)
		return nil
	}
	members, err := object(path+name, raw)
	if err != nil {
		r.fail("%s", err)
	}
	return members
}

// required reads a string that must not be blank.
func (r *reader) required(from map[string]json.RawMessage, path, name string, limit int) string {
	s := r.text(from, path, name, limit)
	if r.err == nil && strings.TrimSpace(s) == "" {
		r.fail("%s%s must not be blank", path, name)
	}
	return s
}

// text reads a string that must be there.
func (r *reader) text(from map[string]json.RawMessage, path, name string, limit int) string {
	if _, ok := present(from, name); !ok {
		r.fail("%s%s is missing", path, name)
		return ""
	}
	return r.optional(from, path, name, limit)
}

func (r *reader) optional(from map[string]json.RawMessage, path, name string, limit int) string {
	raw, ok := present(from, name)
	if !ok {
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		r.fail("%s%s must be a string", path, name)
		return ""
	}
	if len(s) > limit {
		r.fail("%s%s is longer than %d bytes", path, name, limit)
	}
	return s
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// parseMCP reads "mcp": one object, or a list of them. In a list every server
// has a name of its own, given or made.
func parseMCP(raw json.RawMessage, guard *Guard) ([]MCPServer, error) {
	if raw = bytes.TrimSpace(raw); raw[0] != '[' {
		s, err := parseMCPServer("mcp", raw, guard)
		if err != nil {
			return nil, err
		}
		s.Name = "" // the only one needs none
		return []MCPServer{s}, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("mcp must be an object or a list of objects")
	}
	if len(list) > maxMCPServers {
		return nil, fmt.Errorf("mcp lists more than %d servers", maxMCPServers)
	}
	servers := make([]MCPServer, 0, len(list))
	names := map[string]bool{}
	for i, item := range list {
		s, err := parseMCPServer(fmt.Sprintf("mcp[%d]", i), item, guard)
		if err != nil {
			return nil, err
		}
		if s.Name = toolPrefixOf(s.Name); s.Name == "" {
			s.Name = fmt.Sprintf("server%d", i+1)
		}
		if names[s.Name] {
			return nil, fmt.Errorf("mcp[%d].name is used twice", i)
		}
		names[s.Name] = true
		servers = append(servers, s)
	}
	return servers, nil
}

var notInToolNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// toolPrefixOf makes a server's name fit in front of a tool's name.
func toolPrefixOf(name string) string {
	name = strings.Trim(notInToolNames.ReplaceAllString(name, "-"), "-")
	return name[:min(len(name), 32)]
}

func parseMCPServer(path string, raw json.RawMessage, guard *Guard) (MCPServer, error) {
	var s MCPServer
	members, err := object(path, raw)
	if err != nil {
		return s, err
	}
	r := reader{}
	s.URL = r.required(members, path+".", "url", maxURL)
	s.Name = r.optional(members, path+".", "name", maxLabel)
	if r.err != nil {
		return s, r.err
	}
	if err := guard.CheckURL(s.URL); err != nil {
		return s, fmt.Errorf("%s.url: %w", path, err)
	}
	if raw, ok := present(members, "headers"); ok {
		if s.Headers, err = parseHeaders(path+".headers", raw); err != nil {
			return s, err
		}
	}
	return s, nil
}

// ownHeaders are those that belong to the connection or to MCP's transport: a
// service cannot set them without breaking it.
var ownHeaders = map[string]bool{
	"Connection": true, "Content-Length": true, "Host": true, "Keep-Alive": true, "Proxy-Authorization": true,
	"Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

var headerNameRule = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$")

func parseHeaders(path string, raw json.RawMessage) (map[string]string, error) {
	var headers map[string]string
	if err := json.Unmarshal(raw, &headers); err != nil {
		return nil, fmt.Errorf("%s must be an object of strings", path)
	}
	if len(headers) > maxHeaders {
		return nil, fmt.Errorf("%s has more than %d headers", path, maxHeaders)
	}
	for name, value := range headers {
		if !headerNameRule.MatchString(name) || ownHeaders[http.CanonicalHeaderKey(name)] {
			return nil, fmt.Errorf("%s has a name that cannot be sent", path)
		}
		if len(value) > 16<<10 || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return nil, fmt.Errorf("%s has a value that cannot be sent", path)
		}
	}
	return headers, nil
}
