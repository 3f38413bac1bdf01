// Package harness is the border between an agent and what runs its turns.
//
// The agent decides what a model sees (attention, compose window, prompt) and
// carries out what it does (tools, outbox). A Harness in between runs the
// model: package scripted has rules and no model, package model runs the tool
// loop of a model behind an HTTP API itself, packages acp and c2a drive another
// program, package a2a speaks with an agent elsewhere. Package mcptools offers an
// agent's tools as an MCP server and other MCP servers as tools.
//
// Guarantees, for every harness:
//
//   - A harness sends nothing anywhere but through Tools, and text that ends a
//     turn comes back as Outcome.FinalText. What policy forbids is refused by
//     Tools, whatever the model writes.
//   - Nothing is shown to a model but Turn.System, Turn.Prompt (or Turn.Event
//     for c2a), the tools' results and the bounded history of the same
//     conversation.
//   - Turn returns when its context ends, and has stopped the model by then.
//   - A turn is never begun anew inside Turn after a tool was called in it:
//     only requests that a model answered with nothing are sent again.
//   - Memory is bounded: history, tool results, streams, lines of a program.
//   - Secrets (keys, headers, environment) appear in no error and no log.
package harness
