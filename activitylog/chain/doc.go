// Package chain finds the causes and effects of a message in rows of the activity log, by
// inReplyTo, traceparent, and the ids in contents.
package chain
