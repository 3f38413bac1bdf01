package grant

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/text"
)

// A Credential defines what the holder of one token may do.
type Credential struct {
	Name       string   `toml:"name" json:"name"`
	Issuer     string   `toml:"issuer,omitempty" json:"issuer,omitempty"` // a credential; empty if the operator made it
	SHA256     string   `toml:"sha256" json:"-"`                          // of the token, lowercase hex
	Identities []string `toml:"identities" json:"identities"`
	Subscribe  []string `toml:"subscribe" json:"subscribe"`
	Publish    []string `toml:"publish" json:"publish"`
	Issue      []string `toml:"issue,omitempty" json:"issue,omitempty"`
	Names      []string `toml:"names,omitempty" json:"names,omitempty"` // further names that its agents may announce
	Limits
}

var nameSyntax = text.Pattern(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// Check returns nil if a credential is valid, or what is wrong with it.
func (c *Credential) Check() error {
	if b, err := hex.DecodeString(c.SHA256); err != nil || len(b) != sha256.Size || hex.EncodeToString(b) != c.SHA256 {
		return fmt.Errorf("the sha256 of credential %q must be 64 lowercase hex digits", c.Name)
	}
	return c.CheckGrants()
}

// CheckGrants is Check without the hash. It checks what a request for a credential contains:
// the name, the patterns and the limits.
func (c *Credential) CheckGrants() error {
	if !nameSyntax().MatchString(c.Name) {
		return fmt.Errorf("the credential name %q must be 1 to 128 letters, digits, '.', '_', ':' or '-', "+
			"the first a letter or digit", c.Name)
	}
	for _, list := range [][]string{c.Identities, c.Subscribe, c.Publish, c.Issue, c.Names} {
		for _, p := range list {
			if _, err := protocol.ParsePattern(p); err != nil {
				return fmt.Errorf("credential %q: %w", c.Name, err)
			}
		}
	}
	for _, name := range c.Names {
		if strings.ContainsAny(name, ":@. ") {
			return fmt.Errorf("credential %q: the name %q must be bare, such as lead: without dots, colons, @ and "+
				"spaces",
				c.Name, name)
		}
	}
	if err := c.Limits.check(); err != nil {
		return fmt.Errorf("credential %q: %w", c.Name, err)
	}
	return nil
}

// MayBe reports whether the holder may use an identity.
func (c *Credential) MayBe(id protocol.PeerID) bool { return matches(c.Identities, string(id)) }

// MayPublish reports whether the holder may send to a topic.
func (c *Credential) MayPublish(topic string) bool { return matches(c.Publish, topic) }

// MaySubscribe reports whether the holder may subscribe to a pattern.
func (c *Credential) MaySubscribe(p protocol.Pattern) bool { return covered(c.Subscribe, p) }

// MaySee reports whether the holder may know that a peer is connected, because it may use that
// identity, or send or subscribe to that topic.
func (c *Credential) MaySee(id protocol.PeerID) bool {
	return c.MayBe(id) || c.MayPublish(string(id)) || matches(c.Subscribe, string(id))
}

func matches(granted []string, name string) bool {
	return slices.ContainsFunc(granted, func(g string) bool {
		return g == name || protocol.Pattern(g).Matches(protocol.Topic(name))
	})
}

func covered(granted []string, p protocol.Pattern) bool {
	return slices.ContainsFunc(granted, func(g string) bool { return protocol.Pattern(g).Covers(p) })
}

// MayIssue returns nil if the holder may issue or revoke the credential child, or the reason
// why not. The issue patterns of the holder must cover the identities and issue patterns of
// child. The issue, subscribe and publish patterns of the holder must cover the subscribe and
// publish patterns of child. The issue patterns and names of the holder must cover the names
// of child, taken as agents.
func (c *Credential) MayIssue(child *Credential) error {
	if len(c.Issue) == 0 {
		return errors.New("this credential may not issue others; grant it --issue patterns")
	}
	inside := func(what string, asked []string, granted ...string) error {
		for _, p := range asked {
			if !covered(granted, protocol.Pattern(p)) {
				return fmt.Errorf("%s %q lies outside what this credential may issue", what, p)
			}
		}
		return nil
	}
	if len(child.Identities) == 0 {
		return errors.New("a credential needs at least one identity")
	}
	return errors.Join(
		inside("identity", child.Identities, c.Issue...),
		inside("issue pattern", child.Issue, c.Issue...),
		inside("subscribe pattern", child.Subscribe, slices.Concat(c.Issue, c.Subscribe)...),
		inside("publish pattern", child.Publish, slices.Concat(c.Issue, c.Publish)...),
		inside("the name of", agents(child.Names), slices.Concat(c.Issue, agents(c.Names))...),
	)
}

// agents returns the identities of the agents with these names.
func agents(names []string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = "agent:" + name
	}
	return list
}

// NewToken returns a random token of 256 bits.
func NewToken() string {
	b := make([]byte, 32)
	rand.Read(b) //nolint:errcheck // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Hash returns the hash of a token in the form of the file.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
