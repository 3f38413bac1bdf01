// Package budget decides whether a turn may start: whether people have halted the agent, and what it has used
// of its budget. Its state is part of the mailbox, and changes in the mailbox's transactions.
package budget
