//go:build race

package logtest

// Raced reports whether the race detector is on: it makes SQLite ten times slower.
const Raced = true
