//go:build race

package activitylog

// raced reports whether the race detector is on: it makes SQLite ten times slower.
const raced = true
