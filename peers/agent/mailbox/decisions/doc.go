// Package decisions stores the decisions of people about tool calls, shows them in chats, and reads the verdicts
// that people give there. Decisions are part of the mailbox, and change in its transactions. With a collaboration
// broker, its records are authoritative.
package decisions
