// Package chain finds what caused a message and what it caused, as far as rows of the activity log
// tell: by inReplyTo, traceparent, and the ids in contents.
package chain
