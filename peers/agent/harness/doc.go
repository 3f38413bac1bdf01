// Package harness defines the boundary between an agent and the code that runs its turns.
//
// The agent decides what a model sees (attention, compose window, prompt) and carries out what it
// does (tools, outbox). A Harness between them runs the model. Package scripted follows rules
// without a model. Package model runs the tool loop of a model behind an HTTP API. Packages acp
// and c2a drive another program, and package a2a talks to a remote agent. Package mcptools offers
// an agent's tools as an MCP server and other MCP servers as tools.
//
// Guarantees, for every harness:
//
//   - A harness sends messages only through Tools. The text that ends a turn is
//     returned as Outcome.FinalText. Tools refuse what policy forbids, whatever
//     the model writes.
//   - A model sees only Turn.System, Turn.Prompt (or Turn.Event for c2a), the
//     results of tools and the bounded history of the same conversation.
//   - Turn returns when its context ends, and has stopped the model by then.
//   - Turn never restarts a turn after a tool was called in it. It repeats only
//     requests that got no answer from the model.
//   - Memory is bounded: history, tool results, streams, lines of a program.
//   - Secrets (keys, headers, environment) never appear in errors or logs.
package harness
