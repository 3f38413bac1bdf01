// Package acp runs turns on a coding agent that speaks the Agent Client
// Protocol over its stdin and stdout, such as the ACP modes of Claude Code,
// Codex and Gemini.
//
// Each conversation is a session of the program, at most Options.MaxSessions at
// once; the program remembers what was said in it, until it ends. A turn is one
// prompt: the system prompt and the event. The chat tools reach the program as
// the MCP server of Turn.ChatServer where it takes MCP over HTTP; where it does
// not, it can only end a turn with text.
//
// Guarantees:
//
//   - FinalText is the last text that the program wrote after its last tool
//     call, or the last text at all where there is none after it.
//   - Permission requests are answered at once by Options.Permission; nobody is
//     asked. The chat tools are always permitted: the agent enforces policy
//     itself. The program gets neither files nor terminals from this side.
//   - When a turn's context ends, the program is told to stop. One that does not
//     within Options.CancelTimeout is ended and started again, and so are the
//     other turns that it was running.
//   - A program that ends is started again after 1 s, doubled up to 60 s; its
//     running turns fail with harness.ErrTemporary. It never outlives Run.
package acp
