// Package activitylog is the append-only record of what a bus did: one SQLite
// table, one writer, any number of readers.
package activitylog
