// Package agentstats counts what agents did with events and what their turns cost, from the
// attention records in the activity log or as they come.
package agentstats
