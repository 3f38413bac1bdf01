// Package obligations keeps track of who waits for this agent, and whom it waits for. It returns open obligations to
// the agent, escalates them, and synchronizes them with the collaboration broker. Obligations are part of the
// mailbox, and change in its transactions.
package obligations
