package mcptools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/subprocess"
	"hubbub/protocol/text"
)

// maxConfig is the maximum size of a server configuration.
const maxConfig = 1 << 20

// A serverConfig is one server as people write it.
type serverConfig struct {
	Name      string            `json:"name"`
	URL       string            `json:"url"`
	Headers   map[string]string `json:"headers"`
	Command   json.RawMessage   `json:"command"` // a string or a list of words
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	Dir       string            `json:"cwd"`
	Type      string            `json:"type"`      // ignored: the url or command determines it
	Transport string            `json:"transport"` // ignored, like Type
}

// LoadServers reads the operator's servers from a file; see ParseServers. The file may contain
// secrets.
func LoadServers(path string) ([]harness.MCPServer, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the MCP servers: %w", err)
	}
	content, ok := text.Decode(raw)
	if !ok {
		return nil, fmt.Errorf("%s is not text: save it as UTF-8", path)
	}
	servers, err := ParseServers([]byte(content))
	if err != nil {
		return nil, fmt.Errorf("reading the MCP servers of %s: %w", path, err)
	}
	return servers, nil
}

// ParseServers parses servers in JSON: one {"name","url","headers"} or
// {"name","command","args","env"}, a list of them, or {"mcpServers": {name: {...}}}, which many
// programs use.
func ParseServers(raw []byte) ([]harness.MCPServer, error) {
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("it is larger than %d bytes", maxConfig)
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []serverConfig
	var named struct {
		MCPServers map[string]serverConfig `json:"mcpServers"`
	}
	switch {
	case raw[0] == '[':
		if err := decodeStrict(raw, &list); err != nil {
			return nil, err
		}
	case decodeStrict(raw, &named) == nil && named.MCPServers != nil:
		for name, c := range named.MCPServers {
			c.Name = name
			list = append(list, c)
		}
		slices.SortFunc(list, func(a, b serverConfig) int { return strings.Compare(a.Name, b.Name) })
	default:
		var one serverConfig
		if err := decodeStrict(raw, &one); err != nil {
			return nil, err
		}
		list = []serverConfig{one}
	}
	servers := make([]harness.MCPServer, 0, len(list))
	for i, c := range list {
		s, err := c.toServer(i)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// decodeStrict refuses unknown members, which are usually misspelled. Its errors quote no values.
func decodeStrict(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("it is not a list of MCP servers: %w", err)
	}
	return nil
}

func (c *serverConfig) toServer(i int) (harness.MCPServer, error) {
	s := harness.MCPServer{Name: c.Name, URL: c.URL, Headers: c.Headers, Env: c.Env, Dir: c.Dir}
	if s.Name == "" {
		s.Name = "mcp"
		if i > 0 {
			s.Name = fmt.Sprintf("mcp%d", i+1)
		}
	}
	if len(c.Command) > 0 && string(c.Command) != "null" {
		var words string
		switch {
		case json.Unmarshal(c.Command, &s.Command) == nil:
		case json.Unmarshal(c.Command, &words) != nil:
			return s, fmt.Errorf("the command of MCP server %q is neither a string nor a list of words", s.Name)
		case len(c.Args) > 0:
			s.Command = []string{words}
		default:
			var err error
			if s.Command, err = subprocess.SplitCommand(words); err != nil {
				return s, fmt.Errorf("the command of MCP server %q: %w", s.Name, err)
			}
		}
		s.Command = append(s.Command, c.Args...)
	}
	if (s.URL == "") == (len(s.Command) == 0) {
		return s, fmt.Errorf("MCP server %q: give it either a url or a command", s.Name)
	}
	return s, nil
}
