// Package mcptools implements both sides of the Model Context Protocol. It offers an agent's
// tools as an MCP server to programs such as coding agents, and the tools of other MCP servers to
// the agent's own model.
//
// Guarantees of the server: it answers only requests with the agent's token (compared in constant
// time), from a process of the agent's own user (on Linux), to a loopback host name, and not from
// a web page of another origin. It keeps no session; each request sees the current tools.
//
// Guarantees of the client: headers are sent exactly as given, only to the server's own host
// (redirects are not followed), and appear in no error. An unreachable server costs a turn only
// the tools of that server. If a server asks something while a tool runs (elicitation,
// input_required), a person answers by yes, no or in words; see harness.Elicit. A question that may
// belong to any of several calls is canceled. Each tool is called once:
// if the connection breaks, the call returns an error result, unless the server keeps the answer
// for a client that reconnects. Connections, tools of a server, descriptions, answers and results
// are bounded.
package mcptools
