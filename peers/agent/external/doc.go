// Package external runs an agent elsewhere as an agent of the bus: the mailbox, the
// attention and the tools of package agent with the harness chorus.
//
// An agent has a folder of its own with its database. What a gateway of an earlier
// version had in its own database is taken over from there when the agent is opened:
// its history, its open events, its answers that wait for the bus, and the turns
// whose callbacks live (legacy.sql).
package external
