// Package external runs a remote HTTP agent as an agent on the bus. It combines the mailbox,
// attention and tools of package agent with the harness chorus.
//
// Each agent has its own folder with its own database.
package external
