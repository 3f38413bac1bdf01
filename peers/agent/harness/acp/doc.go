// Package acp runs turns on a coding agent that speaks the Agent Client Protocol over its stdin
// and stdout, such as the ACP modes of Claude Code, Codex and Gemini.
//
// Each conversation is a session of the program, at most Options.MaxSessions at once. The program
// remembers a session until it ends. A turn is one prompt: the system prompt and the event. A
// program that supports MCP over HTTP gets the chat tools as the MCP server of Turn.ChatServer.
// Any other program can only end a turn with text.
//
// One process serves all sessions, except for programs that keep one MCP server of each name per
// process (opencode). For those, each set of servers, and so each chat, has its own process, at
// most eight at once.
//
// Guarantees:
//
//   - FinalText is the last text that the program wrote after its last tool
//     call, or its last text if no text follows that call.
//   - Options.Permission decides permission requests immediately. With
//     PermitAsking, or for sensitive tools, a person decides. Sessions are put
//     into a mode in which the program requests permission. The chat tools are
//     always permitted if a known program identifies them by data that a model
//     cannot write; the agent itself enforces policy. The program gets neither
//     files nor terminals from this side.
//   - A question from the program (elicitation) is asked in the chat; see harness.Elicit. One
//     that needs a web page is canceled.
//   - When a turn's context ends, the program is asked to stop. If it does not
//     stop within Options.CancelTimeout, it is restarted, which also ends its
//     other turns.
//   - A program that ends is restarted after 1 s, doubled up to 60 s. Its
//     running turns fail with harness.ErrTemporary. It never outlives Run.
package acp
