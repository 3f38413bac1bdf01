// Package lifecycle ends events: turns finish, deadlines pass, events are deferred and redelivered, and events that
// the agent cannot answer are escalated to others or given up. State changes follow the table of the mailbox.
package lifecycle
