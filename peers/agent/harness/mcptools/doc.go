// Package mcptools speaks the Model Context Protocol in both directions: it
// offers an agent's tools as an MCP server, so that programs such as coding
// agents can use them, and it offers the tools of other MCP servers to the
// agent's own model.
//
// Guarantees of the server: it answers only requests that show the agent's
// token (compared in constant time), that come from a process of the agent's own user
// (on Linux, whose kernel tells), that name a loopback host, and that no
// web page of another origin made. It keeps no session; each request sees the
// tools as they are then.
//
// Guarantees of the client: headers go out exactly as given, to the server's
// own host alone (redirects are not followed), and appear in no error. A server
// that cannot be reached costs a turn its tools and nothing else. What a
// server asks while a tool runs (elicitation, input_required) a person decides, if a yes answers
// it; else it is cancelled, as is what may belong to any of several calls. Tools are
// called once: a call whose connection breaks comes back as an error result, unless
// the server keeps the answer for a client that reconnects.
// Connections, tools of one server, descriptions, answers and results are
// bounded.
package mcptools
