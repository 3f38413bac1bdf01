// Package acp runs turns on a coding agent that speaks the Agent Client
// Protocol over its stdin and stdout, such as the ACP modes of Claude Code,
// Codex and Gemini.
//
// Each conversation is a session of the program, at most Options.MaxSessions at once.
// The program remembers what was said in a session until it ends. A turn is one
// prompt: the system prompt and the event. A program that takes MCP over HTTP gets the
// chat tools as the MCP server of Turn.ChatServer. Any other can only end a turn with
// text.
//
// One process serves all sessions, but for programs that keep one MCP server of a name in
// a process (opencode): there each set of servers, and so each chat, has its own, at most
// eight at once.
//
// Guarantees:
//
//   - FinalText is the last text that the program wrote after its last tool
//     call, or its last text if there is none after that call.
//   - Permission requests are answered at once by Options.Permission; nobody is
//     asked: a session is put into the mode in which the program asks. The chat tools
//     are always permitted, where a program that we know names them by what a model
//     cannot write: the agent enforces policy itself. The program gets neither files nor terminals from this side.
//   - When a turn's context ends, the program is told to stop. If it does not stop
//     within Options.CancelTimeout, it is ended and started again, which also ends
//     the other turns that it was running.
//   - A program that ends is started again after 1 s, doubled up to 60 s; its
//     running turns fail with harness.ErrTemporary. It never outlives Run.
package acp
