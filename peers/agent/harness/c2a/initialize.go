package c2a

import (
	"encoding/json"
	"fmt"
	"slices"

	"hubbub/peers/agent/harness"
)

// ourCapabilities is what this side supports.
var ourCapabilities = map[string]map[string]bool{
	"delivery": {"ack": true, "redelivery": true, "idempotency": true},
	"injection": {
		"immediate":    true,
		"buffered":     true,
		"notify":       true,
		"tool_mailbox": true,
		"digest":       true,
		"interrupt":    true,
	},
	"chatTools": {
		"readThread":      true,
		"sendMessage":     true,
		"react":           true,
		"reactionSignals": true,
		"claim":           true,
		"defer":           true,
		"resolve":         true,
	},
	"utilities": {"progress": true, "cancellation": true, "logging": true},
}

// requiredCapability maps chat tools to the capabilities that they need. Other tools need none.
var requiredCapability = map[string]string{
	"chat.read_thread": "readThread", "chat.send_message": "sendMessage", "chat.react": "react",
	"chat.claim": "claim", "chat.defer": "defer", "chat.resolve": "resolve",
}

// negotiated holds what both sides support.
type negotiated struct {
	version string
	both    map[string]map[string]bool
}

// negotiate evaluates the program's answer to initialize.
func negotiate(asked string, result json.RawMessage) (*negotiated, error) {
	var answer struct {
		ProtocolVersion string                     `json:"protocolVersion"`
		Capabilities    map[string]json.RawMessage `json:"capabilities"`
	}
	if err := json.Unmarshal(result, &answer); err != nil {
		return nil, fmt.Errorf("its answer to initialize cannot be read: %w", err)
	}
	n := &negotiated{version: answer.ProtocolVersion, both: map[string]map[string]bool{}}
	switch n.version {
	case "":
		n.version = asked
	case Version0602, Version0624, Version0811:
	default:
		return nil, fmt.Errorf("it speaks C2A %q, but this program speaks %s, %s and %s", n.version, Version0602,
			Version0624, Version0811)
	}
	for group, ours := range ourCapabilities {
		both := map[string]bool{}
		raw, present := answer.Capabilities[group]
		var theirs map[string]json.RawMessage
		if present && json.Unmarshal(raw, &theirs) != nil {
			return nil, fmt.Errorf("its capabilities.%s is not an object", group)
		}
		for name, have := range ours {
			both[name] = have && (!present || isClaimed(theirs[name]))
		}
		n.both[group] = both
	}
	return n, nil
}

// isClaimed reports whether a program claims a capability: with true, or with an object of
// details.
func isClaimed(raw json.RawMessage) bool {
	return string(raw) == "true" || len(raw) > 0 && raw[0] == '{'
}

func (n *negotiated) has(group, name string) bool { return n.both[group][name] }

// mayCall reports whether the program may call a tool.
func (n *negotiated) mayCall(tool string) bool {
	capability, needed := requiredCapability[tool]
	return !needed || n.has("chatTools", capability)
}

// callableTools returns the tools that the program may call, never nil.
func (n *negotiated) callableTools(tools []harness.Tool) []harness.Tool {
	return slices.DeleteFunc(
		append([]harness.Tool{}, tools...),
		func(t harness.Tool) bool { return !n.mayCall(t.Name) },
	)
}

// capabilities converts the result for package harness.
func (n *negotiated) capabilities() harness.Capabilities {
	modes := n.both["injection"]
	caps := harness.Capabilities{Asynchronous: true, UsesSystemPrompt: true, ProtocolVersion: n.version}
	caps.Injection = harness.Injection{
		Immediate:   modes["immediate"],
		Buffered:    modes["buffered"],
		Notify:      modes["notify"],
		ToolMailbox: modes["tool_mailbox"],
		Digest:      modes["digest"],
		Interrupt:   modes["interrupt"] && n.has("utilities", "cancellation"),
	}
	return caps
}

// supportsMode reports whether the program can receive a mode.
func (n *negotiated) supportsMode(mode string) bool {
	_, known := ourCapabilities["injection"][mode]
	return !known || n.has("injection", mode)
}
