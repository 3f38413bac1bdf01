package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
)

const (
	namedMark = "[redacted:named]" // replaces a value with a secret name
	deepMark  = "[redacted:depth]" // replaces a value that is nested too deep
	maxDepth  = 32
)

// Arguments returns the arguments of a tool call without secrets. It removes the secrets that
// Bytes finds, and the values of members with secret names, such as "password", "apiKey" or
// "Authorization". It finds them in any case and nesting: in JSON within strings, in lists of
// headers, in command lines, and in URLs. Text that is not JSON, such as JSON that was cut, is
// also searched. JSON remains JSON, and a second call changes nothing. Null, empty values, and
// counts of tokens remain.
func (r *Redactor) Arguments(raw []byte) []byte {
	if r == nil {
		return raw
	}
	if !json.Valid(raw) {
		return r.Bytes([]byte(r.withoutCutLogin(r.named(string(raw)))))
	}
	var out, before bytes.Buffer
	c := copier{r: r, out: &out, encoder: json.NewEncoder(&out)}
	c.encoder.SetEscapeHTML(false)
	c.value(raw, "")
	if _ = json.Compact(&before, raw); bytes.Equal(out.Bytes(), before.Bytes()) { // the JSON is valid
		return r.Bytes(raw)
	}
	return r.Bytes(out.Bytes())
}

// A copier copies valid JSON without secrets.
type copier struct {
	r       *Redactor
	out     *bytes.Buffer
	encoder *json.Encoder // to out
	depth   int
}

// value copies a value. name is the name of its member, or the flag or header before it in a
// list.
func (c *copier) value(raw json.RawMessage, name string) {
	raw = bytes.TrimSpace(raw)
	c.depth++
	defer func() { c.depth-- }()
	switch first := raw[0]; {
	case first == '"':
		var s string
		_ = json.Unmarshal(raw, &s) // it is valid
		c.write(c.text(s, name))
	case first == 'n': // null
		c.out.Write(raw)
	case isSecret(name, first != '{' && first != '['):
		c.r.namedFound.Add(1)
		c.write(namedMark)
	case first != '{' && first != '[':
		c.out.Write(raw)
	case c.depth > maxDepth:
		c.write(deepMark)
	case first == '{':
		c.object(raw, name)
	default:
		c.list(raw, name)
	}
}

// text returns a string without its secrets.
func (c *copier) text(s, name string) string {
	inner := strings.TrimSpace(s)
	switch {
	case s == "" || strings.HasPrefix(s, "[redacted:") && strings.HasSuffix(s, "]"):
		return s
	case isSecret(name, isNumber(s)):
		c.r.namedFound.Add(1)
		return namedMark
	case inner != "" && strings.IndexByte(`{["`, inner[0]) >= 0 && json.Valid([]byte(inner)):
		return string(c.r.Arguments([]byte(s)))
	}
	return c.r.named(s)
}

// nameMembers and valueMembers are the members of entries in lists of headers or variables.
var (
	nameMembers = map[string]bool{"name": true, "key": true, "header": true, "field": true, "k": true, "param": true,
		"parameter": true, "variable": true, "var": true, "env": true, "option": true, "flag": true, "label": true,
		"property": true, "attribute": true, "id": true, "type": true, "element": true, "selector": true,
		"locator": true, "placeholder": true}
	valueMembers = map[string]bool{"value": true, "values": true, "val": true, "v": true, "content": true,
		"data": true, "text": true, "default": true}
)

// object copies the object that is the value of the member name. An entry's value may precede its name, so all
// members are read first.
func (c *copier) object(raw json.RawMessage, name string) {
	type member struct {
		name  string
		value json.RawMessage
	}
	var members []member
	entry := ""
	d := json.NewDecoder(bytes.NewReader(raw))
	for _, _ = d.Token(); d.More(); {
		token, _ := d.Token() // it is valid
		m := member{}
		m.name, _ = token.(string)
		_ = d.Decode(&m.value)
		var s string
		if nameMembers[lastWord(m.name)] && json.Unmarshal(m.value, &s) == nil && isSecret(s, false) {
			entry = s
		}
		members = append(members, m)
	}
	c.out.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			c.out.WriteByte(',')
		}
		c.write(c.text(m.name, ""))
		c.out.WriteByte(':')
		switch {
		case entry != "" && valueMembers[lastWord(m.name)]:
			c.value(m.value, entry)
		case strings.EqualFold(m.name, "key") && isSecret(name+" key", false): // {"api":{"key":"value"}}
			c.value(m.value, name+" key")
		default:
			c.value(m.value, m.name)
		}
	}
	c.out.WriteByte('}')
}

// lastWord returns the last word of a name, in lower case.
func lastWord(name string) string {
	words := wordsOf(name)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// list copies a list. Its elements have the name of the list, except that a flag or the name of a
// header names the element after it.
func (c *copier) list(raw json.RawMessage, name string) {
	var elements []json.RawMessage
	_ = json.Unmarshal(raw, &elements) // it is valid
	c.out.WriteByte('[')
	before := ""
	for i, element := range elements {
		if i > 0 {
			c.out.WriteByte(',')
		}
		var s string
		isText := json.Unmarshal(element, &s) == nil && element[0] == '"'
		if user, secret, ok := strings.Cut(s, ":"); ok && secret != "" && (before == "-u" || before == "--user") {
			c.r.namedFound.Add(1)
			c.write(user + ":" + namedMark)
			before = ""
			continue
		}
		c.value(element, cmp.Or(before, name))
		before = ""
		if isText && !strings.ContainsAny(s, " =\t\n") {
			before = s
		}
	}
	c.out.WriteByte(']')
}

func (c *copier) write(s string) {
	_ = c.encoder.Encode(s) // strings can always be encoded
	c.out.Truncate(c.out.Len() - 1)
}
