// Package reminders stores the reminders of an agent, and turns them into events of its mailbox when they are due.
// Reminders are part of the mailbox, and change in its transactions.
package reminders
