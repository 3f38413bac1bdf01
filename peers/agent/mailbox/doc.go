// Package mailbox keeps the events of one agent.
package mailbox
