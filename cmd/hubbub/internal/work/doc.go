// Package work has the commands that use the collaboration broker: work, who, say, ask, invoke,
// conversation, decisions, owe and blocking.
package work
