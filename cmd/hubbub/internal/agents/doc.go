// Package agents has the commands that talk to running agents: chat, halt, resume and reminders.
package agents
