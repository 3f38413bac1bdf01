// Package demo runs a scripted chat against the real programs. It prints the conversation on the
// left and the rows of the activity log on the right.
//
// A [ChatServer] stands in for Telegram: it is a Bot API server in this process, to which the
// users of the script and the person at the keyboard write. A [Printer] reads the activity log
// while the bus writes it, and prints both columns. A [Script] is a list of steps: what is said,
// and what must happen before the next step.
//
// Guarantees:
//
//   - Each line on the right comes from rows of the log and shows their numbers.
//   - A step ends when what it waits for has happened, never after a fixed time. If that does not happen
//     within 40 seconds, the script ends with an error that says what was missing.
//   - The endpoint for people requires the key that the demo writes into its data folder. Only the owner
//     can read it.
package demo
