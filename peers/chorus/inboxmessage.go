package chorus

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"hubbub/peers/attention"
	"hubbub/peers/netguard"
	"hubbub/protocol/text"
)

// Limits on what a Chorus service POSTs, in bytes.
const (
	maxBody       = 1 << 20
	maxID         = 1024
	maxLabel      = 4096 // of a name or sender
	maxContext    = 64 << 10
	maxMCPServers = 16
	maxHeaders    = 64

	maxAttachments = 32
)

// An InboxMessage is one validated message from a Chorus service.
type InboxMessage struct {
	ChannelID ChannelID
	Name      string // of the channel, for people
	Service   string
	Context   string
	MessageID string
	Sender    string
	Kind      attention.AuthorKind // of the sender, as its service declares it; empty if it does not
	Content   string               // with a line for each attachment
	Callback  string               // a secret URL
	MCP       []MCPServer          // secret; empty if the service offers none
}

// An MCPServer is the address of a service's tools, with the headers that authorize calls.
type MCPServer struct {
	Name    string            `json:"name,omitempty"` // only in a list
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
}

var errNotUTF8 = errors.New("the text is not valid UTF-8")

// ParseInboxMessage parses the body of a POST to an inbox. Member names are case-sensitive, and
// unknown members are ignored. An error names the invalid member but never repeats a value.
func ParseInboxMessage(body []byte, guard *netguard.Policy) (p *InboxMessage, err error) {
	if !utf8.Valid(body) {
		return nil, errNotUTF8
	}
	top := readObject("the body", "", body, &err)
	channel, message := top.object("channel"), top.object("message")
	p = &InboxMessage{
		ChannelID: ChannelID(channel.identifier("id", maxID)),
		Name:      channel.optional("name", maxLabel),
		Service:   channel.optional("service", maxLabel),
		Context:   channel.optional("context", maxContext),
		MessageID: message.identifier("id", maxID),
		Sender:    message.displayName("sender", maxLabel),
		Kind:      message.senderKind(),
		Content:   message.content(),
		Callback:  top.url("callback", guard),
		MCP:       top.servers(guard),
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// An object reads the members of a JSON object. All objects of one body share the first error.
type object struct {
	path    string // prefix of member names in errors
	members map[string]json.RawMessage
	err     *error
}

func readObject(what, path string, raw []byte, err *error) object {
	o := object{path: path, err: err}
	if failed := json.Unmarshal(raw, &o.members); failed != nil || o.members == nil {
		o.fail("%s must be a JSON object", what)
	}
	return o
}

func (o object) fail(format string, args ...any) {
	if *o.err == nil {
		*o.err = fmt.Errorf(format, args...)
	}
}

// member returns a member that exists and is not null.
func (o object) member(name string) (json.RawMessage, bool) {
	raw, ok := o.members[name]
	raw = bytes.TrimSpace(raw)
	return raw, ok && string(raw) != "null"
}

// requiredMember is like member, but a missing member is an error.
func (o object) requiredMember(name string) (json.RawMessage, bool) {
	raw, ok := o.member(name)
	if !ok {
		o.fail("%s%s is missing", o.path, name)
	}
	return raw, ok
}

func (o object) object(name string) object {
	raw, ok := o.requiredMember(name)
	if !ok {
		return object{err: o.err}
	}
	return readObject(o.path+name, o.path+name+".", raw, o.err)
}

// nonBlank reads a string that must not be blank.
func (o object) nonBlank(name string, limit int) string {
	s := o.requiredText(name, limit)
	if isBlank(s) {
		o.fail("%s%s must not be blank", o.path, name)
	}
	return s
}

// isBlank reports whether people see nothing of a text.
func isBlank(s string) bool { return strings.TrimSpace(text.CleanName(s)) == "" }

// identifier reads a required string that logs and terminals show.
func (o object) identifier(name string, limit int) string {
	s := o.nonBlank(name, limit)
	if !text.IsCleanName(s) {
		o.fail("%s%s must be %s", o.path, name, text.NameRule)
	}
	return s
}

// displayName reads a required name of a person. It may contain the joiners of emoji and of some
// scripts, but not only those.
func (o object) displayName(name string, limit int) string {
	s := o.nonBlank(name, limit)
	if strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || text.IsControl(r) }) {
		o.fail("%s%s must be valid Unicode without control characters", o.path, name)
	}
	return s
}

// requiredText reads a required string, which may be blank.
func (o object) requiredText(name string, limit int) string {
	o.requiredMember(name)
	return o.optional(name, limit)
}

func (o object) optional(name string, limit int) (s string) {
	raw, ok := o.member(name)
	if ok && json.Unmarshal(raw, &s) != nil {
		o.fail("%s%s must be a string", o.path, name)
	}
	if len(s) > limit {
		o.fail("%s%s is longer than %d bytes", o.path, name, limit)
	}
	return s
}

// senderKinds are the words of services for the kinds of senders.
var senderKinds = map[string]attention.AuthorKind{
	"agent": attention.AuthorAgent, "bot": attention.AuthorAgent, "assistant": attention.AuthorAgent,
	"ai": attention.AuthorAgent, "app": attention.AuthorAgent,
	"human": attention.AuthorHuman, "person": attention.AuthorHuman, "user": attention.AuthorHuman,
	"member": attention.AuthorHuman,
	"system": attention.AuthorSystem, "service": attention.AuthorSystem,
}

// senderKind reads the kind of the sender, an extension of some services. Values that it does not
// know count as none.
func (o object) senderKind() attention.AuthorKind {
	for _, name := range []string{"kind", "senderKind", "sender_kind"} {
		var word string
		if raw, ok := o.member(name); ok && json.Unmarshal(raw, &word) == nil {
			if kind := senderKinds[strings.ToLower(strings.TrimSpace(word))]; kind != "" {
				return kind
			}
		}
	}
	return ""
}

// content reads the text of a message, with a line for the address of each attachment.
func (o object) content() string {
	lines := o.attachments()
	if len(lines) == 0 {
		return o.nonBlank("content", maxBody)
	}
	if said := o.requiredText("content", maxBody); !isBlank(said) {
		lines = slices.Insert(lines, 0, said)
	}
	return strings.Join(lines, "\n")
}

// attachments reads the attachments of a message, an extension of some services: each is a URL, or
// an object with one. The files are not fetched.
func (o object) attachments() (lines []string) {
	raw, ok := o.member("attachments")
	if !ok {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		o.fail("%sattachments must be a list", o.path)
	}
	if len(list) > maxAttachments {
		o.fail("%sattachments has more than %d entries", o.path, maxAttachments)
		return nil
	}
	for i, item := range list {
		path := fmt.Sprintf("%sattachments[%d]", o.path, i)
		var address, name string
		if json.Unmarshal(item, &address) != nil {
			file := readObject(path, path+".", item, o.err)
			name = text.CleanName(cmp.Or(file.optional("name", maxLabel), file.optional("filename", maxLabel)))
			address = file.optional("url", netguard.MaxURL)
		}
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(address) > netguard.MaxURL ||
			strings.ContainsFunc(address, text.IsControl) {
			o.fail("%s needs a url that begins with https:// or http://: files are accepted only by their address", path)
		}
		lines = append(lines, cmp.Or(name, "a file")+": "+address)
	}
	return lines
}

// url reads a URL that may be called.
func (o object) url(name string, guard *netguard.Policy) string {
	raw := o.nonBlank(name, netguard.MaxURL)
	if err := guard.CheckURL(raw); err != nil {
		o.fail("%s%s: %w", o.path, name, err)
	}
	return raw
}

// servers reads "mcp": one object, or a list of objects. In a list, every server has a unique
// name, given or generated.
func (o object) servers(guard *netguard.Policy) []MCPServer {
	raw, ok := o.member("mcp")
	if !ok {
		return nil
	}
	if raw[0] != '[' {
		s := readObject("mcp", "mcp.", raw, o.err).server(guard)
		s.Name = "" // a single server needs none
		return []MCPServer{s}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		o.fail("mcp must be an object or a list of objects")
	}
	if len(list) > maxMCPServers {
		o.fail("mcp lists more than %d servers", maxMCPServers)
		return nil
	}
	servers := make([]MCPServer, len(list))
	for i, item := range list {
		path := fmt.Sprintf("mcp[%d]", i)
		s := readObject(path, path+".", item, o.err).server(guard)
		s.Name = cmp.Or(serverPrefix(s.Name), fmt.Sprintf("server%d", i+1))
		if slices.ContainsFunc(servers, func(other MCPServer) bool { return other.Name == s.Name }) {
			o.fail("%s.name is used twice", path)
		}
		servers[i] = s
	}
	return servers
}

// server reads an MCP server.
func (o object) server(guard *netguard.Policy) MCPServer {
	return MCPServer{URL: o.url("url", guard), Name: o.optional("name", maxLabel), Headers: o.headers("headers")}
}

var notInToolNames = text.Pattern(`[^A-Za-z0-9_-]+`)

// serverPrefix makes a server's name suitable as the prefix of a tool's name.
func serverPrefix(name string) string {
	name = strings.Trim(notInToolNames().ReplaceAllString(name, "-"), "-")
	return name[:min(len(name), 32)]
}

// reservedHeaders belong to the connection or to MCP's transport. A service cannot set them
// without breaking either.
var reservedHeaders = map[string]bool{
	"Connection": true, "Content-Length": true, "Host": true, "Keep-Alive": true, "Proxy-Authorization": true,
	"Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

var headerNameRule = text.Pattern("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$")

// headers reads the headers for a server.
func (o object) headers(name string) (headers map[string]string) {
	raw, ok := o.member(name)
	if ok && json.Unmarshal(raw, &headers) != nil {
		o.fail("%s%s must be an object of strings", o.path, name)
	}
	if len(headers) > maxHeaders {
		o.fail("%s%s has more than %d headers", o.path, name, maxHeaders)
	}
	for header, value := range headers {
		if !headerNameRule().MatchString(header) || reservedHeaders[http.CanonicalHeaderKey(header)] {
			o.fail("%s%s has a name that cannot be sent", o.path, name)
		}
		if len(value) > 16<<10 ||
			strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			o.fail("%s%s has a value that cannot be sent", o.path, name)
		}
	}
	return headers
}
