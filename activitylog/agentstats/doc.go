// Package agentstats counts what agents did with events, and what their turns cost, from
// attention records. The records come from the activity log, or as agents publish them.
package agentstats
