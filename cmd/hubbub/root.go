package main

import (
	"hubbub/cmd/hubbub/internal/agents"
	"hubbub/cmd/hubbub/internal/completion"
	"hubbub/cmd/hubbub/internal/gateway"
	"hubbub/cmd/hubbub/internal/operate"
	"hubbub/cmd/hubbub/internal/work"
	"hubbub/protocol"
)

// completions are the sources of shell completions. See [completion.Install] for the keys.
var completions = map[string]completion.Source{
	"EVENT":             completion.Concat(completion.Messages, work.OpenWork),
	"owe close EVENT":   work.OpenObligations,
	"MESSAGE":           completion.Messages,
	"AGENT":             completion.Connected(protocol.RoleAgent),
	"CHAT|AGENT":        completion.Concat(completion.Connected(protocol.RoleAgent), completion.Chats),
	"TOPIC":             completion.Concat(completion.Connected(protocol.RoleAgent), completion.Chats),
	"CONVERSATION":      completion.Chats,
	"conversation ID":   completion.Chats,
	"ITEM":              operate.Undelivered,
	"REMINDER":          agents.PendingReminders,
	"hook rotate NAME":  gateway.Hooks,
	"hook remove NAME":  gateway.Hooks,
	"token revoke NAME": operate.Credentials,
	"WHO":               work.Agents(""),
	"LABEL":             work.Agents("@"),
	"ask NAME":          work.Agents(""),
	"invoke NAME":       work.Agents(""),
	"work assign NAME":  work.Agents(""),
	"work ID":           work.OpenWork,
	"work answer ID":    work.OpenQuestions,
	"work close ID":     work.OpenQuestions,
	"decisions ID":      work.OpenDecisions,
	"--peer":            completion.Concat(completion.Connected(peerRoles...), completion.Chats),
	"--topic":           completion.Concat(completion.Connected(peerRoles...), completion.Chats),
	"--chat":            completion.Chats,
	"--owner":           work.Agents(""),
	"--next":            work.Agents(""),
	"--on":              work.Agents(""),
	"--master":          work.Agents(""),
	"--work":            work.OpenWork,
	"--parent":          work.OpenWork,
	"--conversation":    completion.Chats,
	"--lang":            completion.Fixed("ts", "py", "go", "sh"),
	"--scope":           completion.Fixed("once", "session", "always"),
	"--priority":        completion.Fixed("low", "normal", "high", "urgent"),
}

var peerRoles = []protocol.Role{
	protocol.RoleAgent, protocol.RoleTG, protocol.RoleMX, protocol.RoleChorus, protocol.RoleBroker,
}
